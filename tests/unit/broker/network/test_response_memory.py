"""The bound on answers that are not read: which requests wait, in which order, and which connections are closed."""

import asyncio

from ottla.broker.network.response_memory import BYTES_PER_SECOND_MIN, GRACE_S, SMALL_BYTES, ResponseMemory

MB = 1_000_000


class Reader:
    def __init__(self, unsent: int = 0) -> None:
        self.unsent = unsent
        self.closed = ""

    def unsent_bytes(self) -> int:
        return self.unsent

    def give_up(self, why: str) -> None:
        self.closed = why


class Waiter:
    """Takes its room, as a connection does whose answer cannot be sent at once."""

    def __init__(self, memory: ResponseMemory, size: int) -> None:
        self.memory = memory
        self.size = size
        self.reader = Reader(size)
        self.is_answered = False

    def memory_is_free(self) -> None:
        self.is_answered = True
        self.memory.take(self.reader, self.size, 0.0)


def test_what_fits_what_is_alone_and_what_is_small_has_room() -> None:
    memory = ResponseMemory(10 * MB)
    assert memory.has_room(50 * MB)
    slow = Reader()
    memory.take(slow, 6 * MB, 0.0)
    assert memory.has_room(5 * MB - MB)
    assert memory.has_room(5 * MB), "its share, beside one other"
    assert not memory.has_room(6 * MB)
    memory.take(Reader(), 5 * MB, 0.0)
    assert not memory.has_room(5 * MB)
    assert memory.has_room(3 * MB)
    assert memory.has_room(SMALL_BYTES)
    memory.release(slow)
    assert memory.has_room(5 * MB)


def test_a_reader_counts_once_and_gives_once() -> None:
    memory = ResponseMemory(10 * MB)
    reader = Reader()
    memory.take(reader, 3 * MB, 0.0)
    memory.take(reader, 2 * MB, 0.0)
    assert memory.held == 2 * MB
    memory.release(reader)
    memory.release(reader)
    assert memory.held == 0


def test_waiting_requests_continue_in_order_as_far_as_there_is_room() -> None:
    async def wait_for_room() -> None:
        memory = ResponseMemory(10 * MB)
        slow = Reader()
        memory.take(slow, 10 * MB, 0.0)
        first, gone, second, third = (Waiter(memory, size * MB) for size in (6, 6, 5, 6))
        for waiter in (first, gone, second, third):
            memory.wait(waiter, waiter.size)
        memory.forget(gone)
        await settled()
        assert not first.is_answered
        memory.release(slow)
        await settled()
        assert [waiter.is_answered for waiter in (first, gone, second, third)] == [True, False, True, False]
        memory.release(first.reader)
        await settled()
        assert not third.is_answered
        memory.release(second.reader)
        await settled()
        assert third.is_answered

    async def settled() -> None:
        for _ in range(10):
            await asyncio.sleep(0)

    asyncio.run(wait_for_room())


def test_a_connection_that_does_not_read_is_closed_when_others_wait() -> None:
    async def close_slow_ones() -> None:
        memory = ResponseMemory(10 * MB)
        stalled, reading = Reader(6 * MB), Reader(4 * MB)
        memory.take(stalled, 6 * MB, 0.0)
        memory.take(reading, 4 * MB, 0.0)
        reading.unsent -= 2 * BYTES_PER_SECOND_MIN
        memory.tick(1000.0)
        assert not stalled.closed
        waiter = Waiter(memory, 9 * MB)
        memory.wait(waiter, waiter.size)
        memory.tick(GRACE_S)
        assert not stalled.closed
        memory.tick(GRACE_S + 1)
        assert stalled.closed == "6000000 bytes of answers were not read in 11 s, and the memory for answers is used up"
        assert not reading.closed
        assert memory.held == 4 * MB

    asyncio.run(close_slow_ones())


def test_far_above_the_bound_the_slowest_is_closed_at_once() -> None:
    memory = ResponseMemory(MB)
    oldest, taking = Reader(MB), Reader(0)
    memory.take(oldest, MB, 0.0)
    memory.take(taking, MB, 0.0)
    assert not oldest.closed
    memory.take(Reader(), 1, 1.0)
    assert oldest.closed
    assert not taking.closed
    alone = ResponseMemory(MB)
    huge = Reader(50 * MB)
    alone.take(huge, 50 * MB, 0.0)
    assert not huge.closed
