"""Long requests in pieces: what one iteration of the loop spends on them, which request comes next, and what ends them."""

import asyncio
import gc
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any

import pytest

from ottla.broker.network.request import Request
from ottla.broker.network.scheduling import (
    ITERATION_S,
    PASSES_MAX,
    SHARE_S,
    UNCHECKED_MAX,
    Background,
    EventLoopBatch,
    Pipelining,
    RequestScheduler,
    Work,
)
from tests.support.kit.sessions import client_session

PIECE_S = 0.001


def in_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    @wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


class World:
    """A scheduler whose clock advances by `PIECE_S` with every piece; `done` lists the pieces in their order."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self.done: list[str] = []
        self.failed: list[Exception] = []
        self.scheduler = RequestScheduler(lambda: self.now_s)

    def request(self) -> Request:
        request = Request(key=3, version=1, correlation_id=1, client_id=None, session=client_session(), buffer=memoryview(b""), body_at=0)
        request.fail = self.failed.append
        return request

    def work(self, name: str, pieces: int, then: Callable[[], None] = lambda: None) -> Work:
        for number in range(pieces):
            self.now_s += PIECE_S
            self.done.append(name)
            if number < pieces - 1:
                yield
        then()

    def start(self, name: str, pieces: int, then: Callable[[], None] = lambda: None) -> Request:
        request = self.request()
        self.scheduler.run(request, self.work(name, pieces, then))
        return request

    async def iterations(self) -> list[int]:
        """The pieces of each iteration of the loop, until nothing is left."""
        counts = []
        while len(self.scheduler):
            before = len(self.done)
            await asyncio.sleep(0)
            counts.append(len(self.done) - before)
        return counts


PIECES_AN_ITERATION = round(ITERATION_S / PIECE_S)
PIECES_A_SHARE = round(SHARE_S / PIECE_S)


@in_a_loop
async def test_a_small_request_ends_in_the_call_that_starts_it() -> None:
    world = World()
    world.start("a", 3)
    assert world.done == ["a"] * 3
    assert len(world.scheduler) == 0


@in_a_loop
async def test_a_long_request_takes_no_more_of_an_iteration_than_its_budget() -> None:
    world = World()
    world.start("a", 95)
    assert len(world.done) == PIECES_AN_ITERATION
    assert max(await world.iterations()) <= PIECES_AN_ITERATION + 1
    assert len(world.done) == 95


@in_a_loop
async def test_fifty_requests_together_take_no_more_than_one() -> None:
    world = World()
    for number in range(50):
        world.start(str(number), 20)
    assert len(world.done) == PIECES_AN_ITERATION, "those that come later in an iteration begin in the next"
    assert max(await world.iterations()) <= PIECES_AN_ITERATION + 1
    assert len(world.done) == 50 * 20


@in_a_loop
async def test_requests_continue_in_turn() -> None:
    world = World()
    world.start("a", 40)
    world.start("b", 40)
    world.start("c", 2)
    await asyncio.sleep(0)
    begun = world.done[PIECES_AN_ITERATION:]
    assert begun[: 3 * PIECES_A_SHARE] == ["a"] * PIECES_A_SHARE + ["b"] * PIECES_A_SHARE + ["c"] * 2
    await world.iterations()
    assert world.done.index("c") < len(world.done) - 60, "a small request does not wait for the end of large ones"


@in_a_loop
async def test_the_budget_is_there_again_in_the_next_iteration() -> None:
    world = World()
    world.start("a", PIECES_AN_ITERATION)
    world.start("b", 1)
    assert "b" not in world.done
    await asyncio.sleep(0)
    assert world.done[-1] == "b"
    await asyncio.sleep(0)
    world.start("c", 1)
    assert world.done[-1] == "c"


@in_a_loop
async def test_work_whose_connection_closes_is_dropped() -> None:
    world = World()
    request = world.start("a", 1000)
    other = world.start("b", 20)
    request.on_disconnect()
    await world.iterations()
    assert world.done.count("a") == PIECES_AN_ITERATION
    assert world.done.count("b") == 20
    other.on_disconnect()  # at the end of its life a request may hear it still


@in_a_loop
async def test_an_exception_ends_its_own_request_alone() -> None:
    world = World()

    def fails() -> None:
        raise ValueError("a mistake")

    world.start("b", 30)
    world.start("a", 1, fails)
    await world.iterations()
    assert [str(error) for error in world.failed] == ["a mistake"]
    assert world.done.count("b") == 30


@in_a_loop
async def test_work_may_start_other_work() -> None:
    world = World()
    world.start("a", 2, lambda: world.start("b", 2) and None)
    await world.iterations()
    assert world.done == ["a", "a", "b", "b"]
    world.start("c", 30, lambda: world.start("d", 30) and None)
    assert max(await world.iterations()) <= PIECES_AN_ITERATION + 1
    assert world.done.count("d") == 30


@in_a_loop
async def test_a_broker_that_stops_drops_all_work() -> None:
    world = World()
    ended: list[str] = []

    def work() -> Work:
        try:
            while True:
                world.now_s += PIECE_S
                yield
        finally:
            ended.append("closed")

    world.scheduler.run(world.request(), work())
    world.scheduler.close()
    await asyncio.sleep(0)
    assert (len(world.scheduler), ended) == (0, ["closed"])


# What pipelined requests take of an iteration of the event loop, on a clock that advances by the work.

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
    monkeypatch.setattr("ottla.broker.network.scheduling.UNCHECKED_MAX", 1)
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


# Tasks of requests: kept until they end, with their exceptions.


def a_request() -> Request:
    return Request(key=3, version=9, correlation_id=1, client_id=None, session=client_session(), buffer=memoryview(b""), body_at=0)


def test_a_task_lives_until_it_ends() -> None:
    async def run() -> list[str]:
        background, done = Background(), []

        async def work() -> None:
            await asyncio.sleep(0)
            gc.collect()
            done.append("work")

        task = background.start(a_request(), work())
        await task
        await asyncio.sleep(0)
        assert background._tasks == set()
        return done

    assert asyncio.run(run()) == ["work"]


def test_an_exception_ends_the_connection_of_the_request() -> None:
    async def run() -> list[str]:
        request, failures = a_request(), []
        request.fail = lambda error: failures.append(str(error))

        async def work() -> None:
            raise ValueError("wrong")

        await asyncio.wait([Background().start(request, work())])
        await asyncio.sleep(0)
        return failures

    assert asyncio.run(run()) == ["wrong"]


def test_all_are_cancelled() -> None:
    async def run() -> bool:
        background = Background()
        task = background.start(a_request(), asyncio.sleep(3600))
        background.cancel()
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(run())


# The end of an event-loop batch: flushes, resumed connections, further flushes, and one write for each connection.


class Answered:
    """Notes its calls; `then` runs when it is resumed."""

    def __init__(self, name: str, calls: list[str], then: Callable[[], None] | None = None) -> None:
        self.name = name
        self.calls = calls
        self.then = then

    def resume(self) -> None:
        self.calls.append(f"{self.name} resumes")
        if self.then is not None:
            self.then()

    def write_responses(self) -> None:
        self.calls.append(f"{self.name} writes")


def in_one_batch(start: Callable[[EventLoopBatch], None]) -> EventLoopBatch:
    batch = EventLoopBatch()

    async def run() -> None:
        start(batch)
        await asyncio.sleep(0)

    asyncio.run(run())
    return batch


def test_everything_is_flushed_before_connections_resume_and_write() -> None:
    calls: list[str] = []
    first, second = Answered("first", calls), Answered("second", calls)

    def start(batch: EventLoopBatch) -> None:
        for name, connection in (("a", first), ("b", second)):
            batch.flush_later(lambda name=name, connection=connection: (calls.append(f"{name} flushes"), batch.resume_later(connection)))

    in_one_batch(start)
    assert calls == ["a flushes", "b flushes", "first resumes", "second resumes", "first writes", "second writes"]


async def iterations(count: int) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_what_settled_parked_requests_is_answered_after_them() -> None:
    calls: list[str] = []
    parked, settling, later, next_one = (Answered(name, calls) for name in ("parked", "settling", "later", "next"))

    async def run() -> None:
        batch = EventLoopBatch()
        batch.order_responses()
        assert not batch.is_ordered, "no parked request was answered yet"
        batch.resume_later(parked)
        batch.order_responses()
        assert batch.is_ordered
        batch.write_behind(settling)
        batch.write_behind(later)
        await iterations(1)
        written = [call for call in calls if call.endswith("writes")]
        assert written == ["parked writes"], "the others are written in the next iteration, behind it on any loop"
        assert batch.is_ordered
        batch.write_behind(next_one)  # its request came before the others were written
        await iterations(1)
        assert batch.is_ordered
        await iterations(2)
        assert not batch.is_ordered

    asyncio.run(run())
    assert [call for call in calls if call.endswith("writes")][1:] == ["settling writes", "later writes", "next writes"]


def test_what_is_answered_by_a_flush_comes_after_what_was_answered_before() -> None:
    """The flushed request came last: its group's earlier one was answered at once, and waits behind another group's."""
    calls: list[str] = []
    parked, behind, flushed = (Answered(name, calls) for name in ("parked", "behind", "flushed"))

    async def run() -> None:
        batch = EventLoopBatch()
        batch.resume_later(parked)
        batch.order_responses()
        batch.write_behind(behind)
        batch.flush_later(lambda: batch.resume_later(flushed))
        await iterations(1)
        assert [call for call in calls if call.endswith("resumes")] == ["parked resumes", "behind resumes", "flushed resumes"]
        await iterations(2)

    asyncio.run(run())
    assert [call for call in calls if call.endswith("writes")] == ["parked writes", "behind writes", "flushed writes"]


def test_a_flush_that_a_resumed_connection_asks_for_belongs_to_the_same_batch_and_shares_the_write() -> None:
    calls: list[str] = []

    def start(batch: EventLoopBatch) -> None:
        connection = Answered("one", calls)
        connection.then = lambda: (calls.count("one resumes") < 3 and batch.flush_later(lambda: batch.resume_later(connection))) or None
        batch.resume_later(connection)

    in_one_batch(start)
    assert calls == ["one resumes"] * 3 + ["one writes"]


def test_a_batch_ends_even_if_there_is_always_more_to_resume() -> None:
    calls: list[str] = []

    def start(batch: EventLoopBatch) -> None:
        connection = Answered("one", calls)
        connection.then = lambda: batch.resume_later(connection)
        batch.resume_later(connection)

    in_one_batch(start)
    assert calls[: PASSES_MAX + 1] == ["one resumes"] * PASSES_MAX + ["one writes"]


def test_the_others_run_when_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def start(batch: EventLoopBatch) -> None:
        batch.flush_later(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        batch.flush_later(lambda: batch.resume_later(Answered("one", calls)))

    in_one_batch(start)
    assert calls == ["one resumes", "one writes"]
    assert "failed unexpectedly" in caplog.text
