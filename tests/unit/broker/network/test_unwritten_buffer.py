"""A buffer costs what is written to it."""

from ottla.broker.network.unwritten_buffer import unwritten_buffer
from ottla.testing.processes.process_tree import resident_bytes


def test_it_is_a_bytearray_of_the_size() -> None:
    buffer = unwritten_buffer(100)
    assert isinstance(buffer, bytearray)
    assert len(buffer) == 100
    buffer[:] = bytes(range(100))
    assert bytes(buffer) == bytes(range(100))
    assert len(unwritten_buffer(4)) == 4


def test_memory_is_taken_as_it_is_written() -> None:
    before = resident_bytes()
    buffers = [unwritten_buffer(100_000_000) for _ in range(5)]
    assert resident_bytes() - before < 50_000_000
    buffers[0][:60_000_000] = bytes(60_000_000)
    assert resident_bytes() - before > 50_000_000
