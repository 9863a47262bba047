"""Garbage collections, measured by CPython's callbacks."""

import gc

from ottla.client.consumer.gc_pauses import PAUSES_MAX, GcPauses


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def pause(pauses: GcPauses, clock: Clock, seconds: float) -> None:
    pauses._collecting("start", {})
    clock.now += seconds
    pauses._collecting("stop", {})


def test_real_collections_are_counted_while_it_measures() -> None:
    pauses = GcPauses()
    before = list(gc.callbacks)
    pauses.start()
    gc.collect()
    pauses.stop()
    measured = pauses.metrics()
    gc.collect()
    assert measured == pauses.metrics()
    assert measured["gc-total"] >= 1
    assert 0 < measured["gc-time-max"] <= measured["gc-time-total"]
    assert gc.callbacks == before


def test_what_lies_between_two_times() -> None:
    clock = Clock()
    pauses = GcPauses(clock=clock)
    clock.now = 1.0
    pause(pauses, clock, 0.5)
    assert pauses.inside_ms(0, 5_000) == 500
    assert pauses.inside_ms(1_200, 1_300) == 100
    assert pauses.inside_ms(1_500, 5_000) == 0
    pauses._collecting("start", {})
    assert pauses.inside_ms(1_400, 1_800) == 400, "one that has not ended counts"


def test_short_ones_are_counted_and_not_kept() -> None:
    clock = Clock()
    pauses = GcPauses(clock=clock)
    pause(pauses, clock, 0.009)
    assert pauses.inside_ms(0, 100) == 0
    assert pauses.metrics()["gc-total"] == 1
    for _ in range(PAUSES_MAX + 1):
        pause(pauses, clock, 1.0)
    assert round(pauses.inside_ms(0, 1_000_000)) == PAUSES_MAX * 1_000


def test_one_that_began_before_the_measuring_is_left_out() -> None:
    pauses = GcPauses()
    pauses._collecting("stop", {})
    assert pauses.metrics()["gc-total"] == 0
