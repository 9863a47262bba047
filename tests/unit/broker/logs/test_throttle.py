"""Bytes a second over all threads, by a clock that the test moves."""

import pytest

from ottla.broker.logs.throttle import Throttle


def test_a_thread_that_comes_too_early_waits() -> None:
    now, waits = [100.0], []
    throttle = Throttle(1000, waits.append, lambda: now[0])
    throttle(500)
    throttle(250)
    assert waits == [0.5, 0.75], "together they may do 1000 bytes a second"
    now[0] += 0.75
    throttle(100)
    assert waits[2:] == pytest.approx([0.1])
    now[0] += 60
    throttle(100)
    assert waits[3:] == pytest.approx([0.1]), "what was not used in the last minute is not saved up"


def test_without_a_limit_nothing_waits() -> None:
    waits: list[float] = []
    throttle = Throttle(float("1.7976931348623157E308"), waits.append, lambda: 0.0)
    for _ in range(100):
        throttle(1 << 30)
    assert waits == []
