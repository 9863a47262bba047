"""The held executor: nothing runs before `run`, in order, and errors go where an executor's go."""

import asyncio

import pytest

from ottla.testing.kit.held_executor import HeldExecutor


def test_what_is_submitted_runs_at_run_in_order() -> None:
    executor, ran = HeldExecutor(), list[int]()
    futures = [executor.submit(ran.append, number) for number in range(4)]
    assert ran == []
    executor.run(1)
    assert (ran, futures[0].done(), futures[1].done()) == ([0], True, False)
    executor.run()
    assert (ran, executor.held) == ([0, 1, 2, 3], [])


def test_it_runs_for_as_long_as_something_is_awaited() -> None:
    executor = HeldExecutor()

    async def work() -> int:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(executor, lambda: 1) + await loop.run_in_executor(executor, lambda: 2)

    assert asyncio.run(executor.run_for(work())) == 3


def test_an_error_is_the_futures_and_a_shutdown_runs_what_is_left() -> None:
    executor = HeldExecutor()
    failing = executor.submit(lambda: 1 // 0)
    executor.shutdown()
    with pytest.raises(ZeroDivisionError):
        failing.result()
