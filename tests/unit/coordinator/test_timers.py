"""Timers: soonest first, re-armed without heap work, cancelled without search."""

import random

from ottla.coordinator.timers import Timer, Timers


def test_the_earliest_timer_fires_first_and_only_when_due() -> None:
    timers, one, two = Timers(), Timer("join", "g"), Timer("session", "g", "m1")
    timers.arm(one, 20)
    timers.arm(two, 10)
    assert timers.next_deadline_ms() == 10
    assert timers.pop_due(9) is None
    assert timers.pop_due(10) is two
    assert two.at_ms is None
    assert timers.next_deadline_ms() == 20
    assert timers.pop_due(25) is one
    assert timers.next_deadline_ms() is None


def test_equal_deadlines_fire_in_the_order_of_arming() -> None:
    timers, armed = Timers(), [Timer("session", "g", f"m{number}") for number in range(5)]
    for timer in armed:
        timers.arm(timer, 7)
    assert [timers.pop_due(7) for _ in armed] == armed


def test_a_timer_that_moves_later_costs_no_heap_work() -> None:
    timers, timer = Timers(), Timer("session", "g", "m1")
    for at_ms in range(10, 10_000):
        timers.arm(timer, at_ms)
    assert len(timers._heap) == 1
    assert timers.next_deadline_ms() == 9_999
    assert timers.pop_due(9_998) is None
    assert timers.pop_due(9_999) is timer


def test_a_timer_that_moves_earlier_fires_once() -> None:
    timers, timer = Timers(), Timer("session", "g", "m1")
    timers.arm(timer, 300_000)
    timers.arm(timer, 10)
    assert timers.pop_due(10) is timer
    assert timers.pop_due(300_000) is None


def test_a_cancelled_timer_does_not_fire_and_can_be_armed_again() -> None:
    timers, timer = Timers(), Timer("session", "g", "m1")
    timers.arm(timer, 10)
    timers.cancel(timer)
    assert timers.next_deadline_ms() is None
    timers.arm(timer, 5)
    assert timers.pop_due(5) is timer


def test_names_say_whose_it_is() -> None:
    assert Timer("session", "g", "m1").key == "session g m1"
    assert Timer("join", "g").key == "join g"


def test_against_a_plain_list() -> None:
    rng = random.Random(7)
    for _ in range(200):
        timers, all_timers = Timers(), [Timer("session", "g", str(number)) for number in range(6)]
        now_ms = 0
        for _ in range(60):
            timer = rng.choice(all_timers)
            if rng.random() < 0.6:
                timers.arm(timer, now_ms + rng.randrange(20))
            elif rng.random() < 0.5:
                timers.cancel(timer)
            now_ms += rng.randrange(4)
            armed = [each.at_ms for each in all_timers if each.at_ms is not None]
            assert timers.next_deadline_ms() == min(armed, default=None)
            while (due := timers.pop_due(now_ms)) is not None:
                armed.remove(min(armed))
                assert due.at_ms is None
            assert all(at_ms > now_ms for at_ms in armed)
