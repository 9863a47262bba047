"""The broker's clock."""

import time

from ottla.broker.clock import monotonic_s, now_ms


def test_it_is_milliseconds_since_1970() -> None:
    before = int(time.time() * 1000)
    assert before - 1 <= now_ms() <= int(time.time() * 1000) + 1


def test_the_monotonic_clock_advances() -> None:
    before = monotonic_s()
    while monotonic_s() == before:
        pass
    assert monotonic_s() > before
