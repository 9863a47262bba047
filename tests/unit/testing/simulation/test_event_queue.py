"""The event queue: order, end, and frozen members."""

from typing import Any, cast

from ottla.testing.simulation.event_queue import EventQueue


class Frozen:
    frozen_until_ms = 50


def test_actions_run_in_the_order_of_their_times() -> None:
    queue, ran = EventQueue(), list[tuple[str, int]]()
    for name, delay_ms in (("late", 20), ("first", 10), ("second", 10), ("too late", 31)):
        queue.later(delay_ms, lambda name=name: ran.append((name, queue.now_ms)))  # type: ignore[misc]
    queue.run_until(30, lambda: False)
    assert ran == [("first", 10), ("second", 10), ("late", 20)]
    assert (queue.now_ms, queue.scheduled) == (20, 4)


def test_it_stops_when_done() -> None:
    queue, ran = EventQueue(), list[int]()
    for number in range(3):
        queue.later(number, lambda number=number: ran.append(number))  # type: ignore[misc]
    queue.run_until(10, lambda: len(ran) == 2)
    assert ran == [0, 1]


def test_actions_of_a_frozen_member_wait_until_it_continues() -> None:
    queue, ran = EventQueue(), list[int]()
    queue.later(10, lambda: ran.append(queue.now_ms), cast(Any, Frozen()))
    queue.run_until(49, lambda: False)
    assert ran == []
    queue.run_until(50, lambda: False)
    assert ran == [50]
