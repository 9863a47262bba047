"""The bound on bytes of requests: which connections wait, continue, and are closed because the rest does not come."""

import pytest

from ottla.broker.network.request_memory import BYTES_PER_SECOND_MIN, DEFAULT_BYTES_MAX, GRACE_S, RequestMemory, request_memory


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
