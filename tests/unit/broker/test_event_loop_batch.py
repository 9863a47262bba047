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


def test_what_settled_parked_requests_is_answered_after_them() -> None:
    calls: list[str] = []
    parked, settling, later = (Connection(name, calls) for name in ("parked", "settling", "later"))
    ordered: list[bool] = []

    def start(batch: EventLoopBatch) -> None:
        batch.order_responses()
        ordered.append(batch.is_ordered)  # no parked request was answered yet
        batch.resume_later(parked)
        batch.order_responses()
        ordered.append(batch.is_ordered)
        batch.write_behind(settling)
        batch.write_behind(later)

    async def run() -> None:
        batch = EventLoopBatch()
        start(batch)
        await asyncio.sleep(0)
        assert calls == ["parked resumes", "parked writes"], "the others are written in the next iteration, behind it on any loop"
        ordered.append(batch.is_ordered)
        await asyncio.sleep(0)

    asyncio.run(run())
    assert ordered == [False, True, False]
    assert calls[2:] == ["settling writes", "later writes"]


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
