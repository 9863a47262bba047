"""Slices of work on the loop: no pause within one, a pause when it is over, and the time of all of them."""

import asyncio
from types import SimpleNamespace

import pytest

from ottla.broker.monitoring import time_slices
from ottla.broker.monitoring.time_slices import TimeSlices


async def pauses(calls: int) -> tuple[int, float]:
    """How often another task ran while work checked its slice so often, and how long the work was busy."""
    slices, ran = TimeSlices(), 0

    async def other() -> None:
        nonlocal ran
        while True:
            ran += 1
            await asyncio.sleep(0)

    task = asyncio.ensure_future(other())
    for _ in range(calls):
        await slices.pause_if_over()
    slices.end()
    task.cancel()
    return ran, slices.busy_s


def test_a_slice_that_is_not_over_does_not_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 1_000)
    assert asyncio.run(pauses(10))[0] == 0


def test_other_tasks_run_between_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_slices, "SLICE_S", 0)
    ran, busy_s = asyncio.run(pauses(10))
    assert ran == 10
    assert busy_s > 0


def test_pauses_are_not_counted_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 0.0
    monkeypatch.setattr(time_slices, "time", SimpleNamespace(perf_counter=lambda: now_s))

    def pass_time(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds

    async def run() -> float:
        slices = TimeSlices()
        pass_time(3)
        asyncio.get_running_loop().call_soon(pass_time, 5)
        await slices.pause_if_over()
        pass_time(2)
        slices.end()
        return slices.busy_s

    assert asyncio.run(run()) == 5
    assert now_s == 10
