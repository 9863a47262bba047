"""The memory of a response: it follows the bytes that come."""

from collections.abc import Callable

import pytest

from ottla.client.network.frame_buffer import FrameBuffer

MIB = 1024 * 1024


class Pieces:
    """A socket that gives these bytes, at most `most` at once."""

    def __init__(self, data: bytes, most: int = 2**30) -> None:
        self.data = memoryview(data)
        self.most = most

    def recv_into(self, buffer: memoryview, /) -> int:
        count = min(len(buffer), self.most, len(self.data))
        buffer[:count] = self.data[:count]
        self.data = self.data[count:]
        return count


@pytest.mark.parametrize("size", [1, 10, 100_000])
@pytest.mark.parametrize("most", [2**30, 30_001])
def test_every_byte_is_kept(size: int, most: int) -> None:
    data = (b"0123456789" * (size // 10 + 1))[:size]
    buffer = FrameBuffer(size)
    source = Pieces(data + b"the next response", most)
    while not buffer.is_full:
        buffer.receive(source)
    assert buffer.view() == data
    assert buffer.view().readonly
    assert source.data == b"the next response"


def test_a_long_announcement_takes_little_memory(resident_bytes: Callable[[], int]) -> None:
    source = Pieces(bytes(3 * MIB))
    before = resident_bytes()
    buffer = FrameBuffer(200 * MIB)
    buffer.receive(source)
    assert resident_bytes() - before < 20 * MIB
    assert len(buffer.view()) == 3 * MIB


def test_the_end_of_the_connection() -> None:
    with pytest.raises(ConnectionError, match="closed the connection"):
        FrameBuffer(10).receive(Pieces(b""))
