"""What pipelined requests take of an iteration of the event loop, on a clock that advances by the work."""

import asyncio

import pytest

from ottla.broker.network.pipelining import ITERATION_S, SHARE_S, UNCHECKED_MAX, Pipelining

WORK_S = 0.0004


class Time:
    def __init__(self) -> None:
        self.now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


class Connection:
    """So many requests are left; each takes some time."""

    def __init__(self, pipelining: Pipelining, time: Time, requests: int, handled: list["Connection"]) -> None:
        self.pipelining, self.time, self.requests, self.handled = pipelining, time, requests, handled

    def continue_frames(self) -> None:
        is_first = True
        while self.requests:
            if not (is_first or self.pipelining.may_continue()):
                self.pipelining.defer(self)
                return
            is_first = False
            self.requests -= 1
            self.time.now_s += WORK_S
            self.handled.append(self)


async def iteration() -> None:
    await asyncio.sleep(0)


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    """Asked before every request."""
    monkeypatch.setattr("ottla.broker.network.pipelining.UNCHECKED_MAX", 1)
    return Time()


def test_the_clock_is_asked_rarely_while_there_is_time_and_always_when_there_is_none() -> None:
    time = Time()

    async def scenario() -> None:
        pipelining = Pipelining(time)
        assert [pipelining.may_continue() for _ in range(2 * UNCHECKED_MAX)] == [True] * 2 * UNCHECKED_MAX
        time.now_s += 2 * ITERATION_S
        answers = [pipelining.may_continue() for _ in range(2 * UNCHECKED_MAX)]
        assert answers == [True] * (UNCHECKED_MAX - 1) + [False] * (UNCHECKED_MAX + 1)
        await iteration()
        assert pipelining.may_continue()

    asyncio.run(scenario())


def test_a_connection_continues_until_the_iteration_has_taken_its_time(time: Time) -> None:
    async def scenario() -> None:
        pipelining = Pipelining(time)
        assert pipelining.may_continue()
        time.now_s += ITERATION_S - 0.0001
        assert pipelining.may_continue()
        time.now_s += 0.0002
        assert not pipelining.may_continue()
        await iteration()
        assert pipelining.may_continue(), "a new iteration has time of its own"

    asyncio.run(scenario())


def test_an_iteration_takes_no_longer_however_many_connections_there_are(time: Time) -> None:
    async def scenario() -> None:
        pipelining = Pipelining(time)
        handled: list[Connection] = []
        connections = [Connection(pipelining, time, 100, handled) for _ in range(50)]
        for connection in connections:
            pipelining.defer(connection)
        while any(connection.requests for connection in connections):
            before_s, before = time.now_s, len(handled)
            await iteration()
            assert time.now_s - before_s <= ITERATION_S + WORK_S
            assert len(handled) > before, "each iteration gets on"

    asyncio.run(scenario())


def test_connections_take_turns(time: Time) -> None:
    async def scenario() -> None:
        pipelining = Pipelining(time)
        handled: list[Connection] = []
        many, few = Connection(pipelining, time, 1_000, handled), Connection(pipelining, time, 1, handled)
        pipelining.defer(many)
        pipelining.defer(few)
        await iteration()
        assert few in handled, "the other one takes a share of the iteration, not all of it"
        assert handled.index(few) <= SHARE_S / WORK_S + 1

    asyncio.run(scenario())
