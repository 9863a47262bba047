"""What is counted of the event stream."""

from typing import Any

import pytest

from ottla.broker.monitoring import group_counts
from ottla.broker.monitoring.group_counts import GroupCounts
from ottla.broker.monitoring.group_snapshot import Durations
from ottla.groups.events import GroupEvent


def event(kind: str, at_ms: int = 0, *, group: str = "g", **fields: Any) -> GroupEvent:
    return GroupEvent(at_ms=at_ms, group=group, kind=kind, generation=1, state_from="", state_to="", **fields)


def counted(*events: GroupEvent) -> GroupCounts:
    counts = GroupCounts()
    for each in events:
        counts.note(each)
    return counts


REBALANCE = (
    event("trigger", 1_000, trigger="JOIN_NEW"),
    event("trigger", 1_500, trigger="LEAVE", coalesced=True),
    event("join_completed", 4_000),
    event("sync_completed", 4_250, evidence={"sync_phase_ms": 250}),
)


@pytest.mark.conformance("GroupMetadataManagerTest.testClassicGroupCompletedRebalanceSensor")
def test_a_rebalance_is_counted_by_what_began_it() -> None:
    counts = counted(*REBALANCE)
    for each in (counts.of("g"), counts.all):
        assert each.rebalances == {"JOIN_NEW": 1}
        assert each.coalesced == {"LEAVE": 1}
        assert each.outcomes == {"completed": 1}
        assert each.durations == {"join": Durations().plus(3.0), "sync": Durations().plus(0.25)}
    assert counts.of("h").rebalances == {}


@pytest.mark.parametrize(
    ("events", "outcomes"),
    [
        ((REBALANCE[0], event("emptied", 1_000)), {"emptied": 1}),
        ((*REBALANCE[:3], event("trigger", 5_000, trigger="STORE_ERROR")), {"superseded": 1}),
        ((REBALANCE[0], event("loaded", 2_000)), {"interrupted": 1}),
        ((REBALANCE[0], event("deleted", 2_000)), {"interrupted": 1}),
        ((event("loaded", 2_000),), {}),
    ],
)
def test_how_a_rebalance_ends(events: tuple[GroupEvent, ...], outcomes: dict[str, int]) -> None:
    assert counted(*events).all.outcomes == outcomes


def test_a_rebalance_that_had_begun_before_counting() -> None:
    counts = counted(*REBALANCE[2:])
    assert counts.all.rebalances == {"UNKNOWN": 1}
    assert "join" not in counts.all.durations


@pytest.mark.conformance("OffsetMetadataManagerTest.testOffsetsExpiredSensor")
def test_events_without_a_rebalance() -> None:
    counts = counted(event("static_replaced"), event("static_fenced"), event("offsets_expired", evidence={"offset_count": 5})).of("g")
    assert (counts.static_replaced, counts.static_fenced, counts.offsets_expired) == (1, 1, 5)
    assert counts.rebalances == {}


def test_groups_that_are_gone_or_silent_are_forgotten_and_sums_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_counts, "GROUPS_COUNTED_MAX", 2)
    counts = counted(*(event("trigger", group=group, trigger="LEAVE") for group in ("a", "b", "a", "c")))
    assert [counts.of(group).rebalances.get("LEAVE") for group in "abc"] == [2, None, 1]
    counts.note(event("deleted", group="a"))
    assert counts.of("a").rebalances == {}
    assert counts.all.rebalances == {"LEAVE": 4}
