"""The bound on bytes of requests: which connections wait, continue, and are closed because the rest does not come."""

import asyncio

import pytest

from ottla.broker.network.memory import (
    BYTES_PER_SECOND_MIN,
    DEFAULT_BYTES_MAX,
    GRACE_S,
    SMALL_BYTES,
    RequestMemory,
    ResponseMemory,
    request_memory,
    unwritten_buffer,
)
from tests.support.processes import resident_bytes


class Sender:
    def __init__(self, frame_bytes: int) -> None:
        self.frame_bytes = frame_bytes
        self.held = 0
        self.since_s = 0.0
        self.waits = False
        self.closed = ""

    @property
    def missing(self) -> int:
        return max(self.frame_bytes - self.held, 0)

    def wait_for_memory(self, waits: bool) -> None:
        self.waits = waits

    def give_up(self, why: str) -> None:
        self.closed = why


def test_below_the_bound_no_connection_waits() -> None:
    memory = RequestMemory(1000)
    senders = [Sender(500) for _ in range(2)]
    for sender in senders:
        memory.take(sender, 499)
    assert not memory.is_short
    assert not any(sender.waits for sender in senders)


def test_above_the_bound_connections_with_more_than_their_share_wait() -> None:
    memory = RequestMemory(1000)
    large, small = Sender(2000), Sender(150)
    memory.take(large, 950)
    memory.take(small, 100)
    assert memory.is_short
    assert not small.waits
    memory.take(large, 10)
    assert large.waits


def test_bytes_that_are_given_back_let_the_first_that_waits_continue() -> None:
    memory = RequestMemory(1000)
    done, first, second = Sender(900), Sender(900), Sender(900)
    memory.take(done, 600)
    memory.take(first, 510)
    memory.take(second, 490)
    assert [sender.waits for sender in (done, first, second)] == [False, True, True]
    memory.release(done, 600)
    assert [sender.waits for sender in (first, second)] == [True, True]  # 1,000 bytes are held: there is no room
    memory.release(second, 490)
    assert [sender.waits for sender in (first, second)] == [False, False]
    assert not memory.is_short
    memory.release(first, 510)
    assert memory.held == 0


def test_when_all_wait_those_that_are_nearly_complete_go_on() -> None:
    memory = RequestMemory(800)
    senders = [Sender(2000 - 10 * number) for number in range(10)]
    for sender in senders:
        memory.take(sender, 900)
    assert [sender.waits for sender in senders] == [True] * 10
    memory.tick(1.0)
    assert [sender.waits for sender in senders] == [True] * 9 + [False]
    memory.take(senders[-1], 1000)
    assert not senders[-1].waits, "it may hold what it needs"
    memory.release(senders[-1], 1900)
    memory.tick(2.0)
    assert [sender.waits for sender in senders] == [True] * 8 + [False] * 2


def test_one_whose_rest_does_not_come_is_closed_while_others_wait() -> None:
    memory = RequestMemory(1000)
    stalled, waiting = Sender(2000), Sender(2000)
    memory.take(stalled, 900)
    memory.tick(GRACE_S + 1)
    assert not stalled.closed, "no other connection waits for its memory"
    memory.take(waiting, 900)
    waiting.since_s = GRACE_S
    memory.tick(GRACE_S)
    assert not stalled.closed
    memory.tick(GRACE_S + 1)
    assert "900 bytes of a request came in 11 s" in stalled.closed
    assert not waiting.closed
    memory.release(stalled, 900)
    assert not waiting.waits


def test_one_that_is_slow_but_comes_is_not_closed() -> None:
    memory = RequestMemory(30 * BYTES_PER_SECOND_MIN)
    slow, waiting = Sender(100_000_000), Sender(100_000_000)
    memory.take(slow, 20 * BYTES_PER_SECOND_MIN)
    memory.take(waiting, 16 * BYTES_PER_SECOND_MIN)
    assert waiting.waits
    waiting.since_s = 100.0
    memory.tick(20 + GRACE_S - 1)
    assert not slow.closed
    memory.tick(20 + GRACE_S + 1)
    assert slow.closed


def test_whole_requests_that_wait_are_never_closed() -> None:
    memory = RequestMemory(1000)
    behind_a_long_poll, waiting = Sender(0), Sender(2000)
    memory.take(behind_a_long_poll, 900)
    memory.take(waiting, 900)
    memory.tick(1000.0)
    assert not behind_a_long_poll.closed


@pytest.mark.parametrize(("setting", "bytes_max"), [(-1, DEFAULT_BYTES_MAX), (0, DEFAULT_BYTES_MAX), (5, 5)])
def test_kafkas_setting(setting: int, bytes_max: int) -> None:
    assert request_memory(setting).bytes_max == bytes_max


def test_one_that_was_preferred_is_like_the_others_when_it_is_done() -> None:
    memory = RequestMemory(1000)
    first, second, done = Sender(1500), Sender(1600), Sender(900)
    for sender, size in ((first, 480), (second, 490), (done, 300), (first, 1), (second, 1)):
        memory.take(sender, size)
    memory.release(done, 300)
    assert [sender.waits for sender in (first, second)] == [False, True], "there is no room for both"
    memory.tick(1.0)
    assert not second.waits
    memory.release(second, second.held)
    memory.take(second, 1)
    second.since_s = 2.0
    memory.tick(3.0 + GRACE_S)
    assert not second.closed, "no request waits for memory: a slow one is accepted"


# The bound on answers that are not read: which requests wait, in which order, and which connections are closed.

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


# A buffer costs what is written to it.


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
