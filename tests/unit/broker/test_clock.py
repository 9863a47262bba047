"""The broker's clock."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from ottla.broker.clock import PeriodicTask, Sampler, monotonic_s, now_ms


def test_it_is_milliseconds_since_1970() -> None:
    before = int(time.time() * 1000)
    assert before - 1 <= now_ms() <= int(time.time() * 1000) + 1


def test_the_monotonic_clock_advances() -> None:
    before = monotonic_s()
    while monotonic_s() == before:
        pass
    assert monotonic_s() > before


# Periodic work: after each call a pause, unless there is more to do; a failure does not end it, and it ends when it is stopped.


def run(steps: Callable[[], Awaitable[None]]) -> None:
    async def in_time() -> None:
        async with asyncio.timeout(60):
            await steps()

    asyncio.run(in_time())


class Work:
    """Counts its calls; `outcomes` are what the first ones return or raise."""

    def __init__(self, *outcomes: object, enough: int = 3) -> None:
        self.calls = 0
        self.pauses = 0
        self.failures: list[Exception] = []
        self.enough = asyncio.Event()
        self._enough_after = enough
        self._outcomes = list(outcomes)

    async def __call__(self) -> object:
        self.calls += 1
        if self.calls == self._enough_after:
            self.enough.set()
        outcome = self._outcomes.pop(0) if self._outcomes else None
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def pause_s(self) -> float:
        self.pauses += 1
        return 0 if self.calls < self._enough_after else 1000

    def task(self, **given: Any) -> PeriodicTask:
        return PeriodicTask(self, pause_s=self.pause_s, failed=self.failures.append, **given)


def test_it_is_repeated_after_a_pause_and_after_failures() -> None:
    async def steps() -> None:
        error = RuntimeError("a bug")
        work = Work(error)
        task = work.task()
        task.start()
        await work.enough.wait()
        await task.stop()
        assert (work.calls, work.pauses, work.failures) == (3, 3, [error])

    run(steps)


def test_there_is_no_pause_while_there_is_more_to_do() -> None:
    async def steps() -> None:
        work = Work(True, True)
        task = work.task()
        task.start()
        await work.enough.wait()
        await asyncio.sleep(0)
        await task.stop()
        assert (work.calls, work.pauses) == (3, 1)

    run(steps)


def test_the_first_call_comes_after_the_delay() -> None:
    async def steps() -> None:
        work = Work(enough=1)
        late = work.task(delay_s=10_000 * 86_400.0)  # more than a timer of the loop takes
        late.start()
        await asyncio.sleep(0.01)
        await late.stop()
        assert work.calls == 0
        soon = work.task(delay_s=0.001)
        soon.start()
        await work.enough.wait()
        await soon.stop()

    run(steps)


def test_finish_lets_the_call_under_way_end_and_stop_does_not() -> None:
    async def steps() -> None:
        ended: list[str] = []
        goes_on = asyncio.Event()
        begun = asyncio.Event()

        async def work() -> bool:
            begun.set()
            await goes_on.wait()
            ended.append("work")
            return True

        def fail(error: Exception) -> None:
            raise error

        cancelled = PeriodicTask(work, pause_s=lambda: 0, failed=fail)
        cancelled.start()
        await begun.wait()
        await cancelled.stop()
        assert ended == []
        begun.clear()
        task = PeriodicTask(work, pause_s=lambda: 0, failed=fail, name="finished")
        assert task.start().get_name() == "finished"
        await begun.wait()
        finishing = asyncio.ensure_future(task.finish())
        await asyncio.sleep(0)
        goes_on.set()
        await finishing
        assert ended == ["work"]

    run(steps)


def test_finish_ends_a_pause() -> None:
    async def steps() -> None:
        work = Work(enough=1)
        task = work.task()
        task.start()
        await work.enough.wait()
        await task.finish()
        assert work.calls == 1

    run(steps)


def test_what_the_failure_handler_raises_ends_the_task() -> None:
    async def steps() -> None:
        def fail(error: Exception) -> None:
            raise error

        task = PeriodicTask(Work(RuntimeError("a bug")), pause_s=lambda: 0, failed=fail)
        started = task.start()
        await asyncio.wait([started])
        with pytest.raises(RuntimeError, match="a bug"):
            started.result()
        await task.stop()

    run(steps)


def test_stop_before_start() -> None:
    async def steps() -> None:
        task = Work().task()
        await task.stop()
        await task.finish()

    run(steps)


# Sampling again and again: a sample that fails is said, and the next one comes.


class CountingSampler(Sampler):
    subject = "the test's subject"

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.samples = 0
        self._failures = failures
        self.enough = asyncio.Event()

    async def sample(self) -> None:
        self.samples += 1
        if self.samples == self._failures + 2:
            self.enough.set()
        if self.samples <= self._failures:
            raise RuntimeError("a bug")

    def pause_s(self) -> float:
        return 0


def test_it_samples_until_it_is_stopped_and_logs_what_failed(caplog: Any) -> None:
    async def story() -> None:
        sampler = CountingSampler(failures=2)
        await sampler.stop()  # it has not started
        sampler.start()
        async with asyncio.timeout(60):
            await sampler.enough.wait()
        await sampler.stop()
        samples = sampler.samples
        for _ in range(3):
            await asyncio.sleep(0)
        assert sampler.samples == samples

    asyncio.run(story())
    assert caplog.messages == ["sampling the test's subject failed; it is tried again"] * 2
