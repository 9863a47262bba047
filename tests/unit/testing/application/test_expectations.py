"""Expected rebalances: only those that begin later count, and more of them are too many."""

import pytest

from ottla.groups.events import GroupEvent
from ottla.history.group_history import Rebalance, histories_of_events
from ottla.testing.application.expectations import Expectation


def event(kind: str, generation: int, trigger: str | None = None) -> GroupEvent:
    states = {"state_from": "Stable", "state_to": "PreparingRebalance"}
    return GroupEvent(at_ms=0, group="g", kind=kind, generation=generation, trigger=trigger, **states)


def rebalance(generation: int, trigger: str, *, ends: bool = True) -> Rebalance:
    events = [event("trigger", generation - 1, trigger), event("join_completed", generation)]
    (found,) = histories_of_events([*events, event("sync_completed", generation)] if ends else events)["g"].rebalances
    return found


def test_only_what_begins_later_counts() -> None:
    seen = [rebalance(1, "JOIN_NEW")]
    expected = Expectation("g", 2, 1, rebalances_now=lambda: seen, group_in_words=lambda: "It is Stable.")
    assert not expected.has_come()
    seen.append(rebalance(2, "JOIN_NEW"))
    seen.append(rebalance(3, "JOIN_NEW"))
    assert not expected.has_come(), "none of them was unplanned"
    assert expected.in_words() == "expected 2 rebalances and 1 unplanned of group g. 2 began, 0 of them unplanned. It is Stable."
    seen[-1] = rebalance(3, "EXPIRE_HEARTBEAT")
    assert expected.has_come()
    expected.check()
    seen.append(rebalance(4, "JOIN_NEW"))
    with pytest.raises(AssertionError, match="3 began, 1 of them unplanned"):
        expected.check()


def test_the_last_one_must_have_ended() -> None:
    seen: list[Rebalance] = []
    expected = Expectation("g", None, 0, rebalances_now=lambda: seen, group_in_words=str)
    assert expected.has_come()
    seen.append(rebalance(1, "JOIN_NEW", ends=False))
    assert not expected.has_come()
    expected.check()
    seen[0] = rebalance(1, "SYNC_TIMEOUT")
    with pytest.raises(AssertionError, match="expected 0 unplanned of group g"):
        expected.check()
