"""The end of an event-loop batch: flushes, resumed connections, further flushes, and one write for each connection."""

import asyncio
from collections.abc import Callable

import pytest

from ottla.broker.event_loop_batch import PASSES_MAX, EventLoopBatch


class Connection:
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
    first, second = Connection("first", calls), Connection("second", calls)

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
    parked, settling, later, next_one = (Connection(name, calls) for name in ("parked", "settling", "later", "next"))

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
    parked, behind, flushed = (Connection(name, calls) for name in ("parked", "behind", "flushed"))

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
        connection = Connection("one", calls)
        connection.then = lambda: (calls.count("one resumes") < 3 and batch.flush_later(lambda: batch.resume_later(connection))) or None
        batch.resume_later(connection)

    in_one_batch(start)
    assert calls == ["one resumes"] * 3 + ["one writes"]


def test_a_batch_ends_even_if_there_is_always_more_to_resume() -> None:
    calls: list[str] = []

    def start(batch: EventLoopBatch) -> None:
        connection = Connection("one", calls)
        connection.then = lambda: batch.resume_later(connection)
        batch.resume_later(connection)

    in_one_batch(start)
    assert calls[: PASSES_MAX + 1] == ["one resumes"] * PASSES_MAX + ["one writes"]


def test_the_others_run_when_one_fails(caplog: pytest.LogCaptureFixture) -> None:
    calls: list[str] = []

    def start(batch: EventLoopBatch) -> None:
        batch.flush_later(lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        batch.flush_later(lambda: batch.resume_later(Connection("one", calls)))

    in_one_batch(start)
    assert calls == ["one resumes", "one writes"]
    assert "failed unexpectedly" in caplog.text
