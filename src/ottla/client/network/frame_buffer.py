"""Memory for one response: it is used as bytes come, whatever length the broker has announced."""

from io import BytesIO
from typing import Protocol


class Source(Protocol):
    """A socket, plain or encrypted."""

    def recv_into(self, buffer: memoryview, /) -> int: ...


class FrameBuffer:
    """Room for a response of `size` bytes.

    The operating system provides its pages when they are written to: `bytes` asks for zeroed memory, while a bytearray writes the zeros
    itself. BytesIO gives a view on those bytes without a copy, since nothing else refers to them.
    """

    def __init__(self, size: int) -> None:
        self._data = BytesIO(bytes(size)).getbuffer()
        self._filled = 0

    @property
    def is_full(self) -> bool:
        """Whether the response is complete."""
        return self._filled == len(self._data)

    def receive(self, source: Source) -> None:
        """Read once. Raises ConnectionError at the end of the connection, and what `source` raises."""
        count = source.recv_into(self._data[self._filled :])
        if count == 0:
            raise ConnectionError("the broker closed the connection")
        self._filled += count

    def view(self) -> memoryview:
        """What has come, read-only."""
        return self._data[: self._filled].toreadonly()
