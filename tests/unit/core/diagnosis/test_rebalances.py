"""Rebalances from events: each has a row, with what is known of it."""

import pytest

from ottla.core.diagnosis.rebalances import Rebalance, rebalances
from ottla.core.model import EventMember, GroupEvent


def _members(
    *names: str, assignment: dict[str, list[int]] | None = None, instances: dict[str, str] | None = None
) -> tuple[EventMember, ...]:
    return tuple(
        EventMember(
            member_id=name,
            instance_id=(instances or {}).get(name),
            client_id=name.partition("-")[0],
            client_host="/h",
            session_timeout_ms=6_000,
            rebalance_timeout_ms=300_000,
            assignment={"t": assignment[name]} if assignment and name in assignment else {},
        )
        for name in names
    )


def _event(at_ms: int, kind: str, generation: int = 1, state_from: str = "Stable", **fields: object) -> GroupEvent:
    return GroupEvent(at_ms=at_ms, group="g", kind=kind, generation=generation, state_from=state_from, state_to="", **fields)


def _trigger(at_ms: int, code: str, client: str = "a", **fields: object) -> GroupEvent:
    return _event(at_ms, "trigger", trigger=code, reason=f"{code} of {client}", client_id=client, client_host="/h", **fields)


START = [
    _trigger(100, "JOIN_NEW", state_from="Empty", generation=0),
    _event(103, "join_completed", members=_members("a-1")),
    _event(110, "sync_completed", members=_members("a-1", assignment={"a-1": [0, 1]})),
]


def test_a_new_group_of_one():
    assert rebalances(START) == [
        Rebalance(
            group="g",
            generation=1,
            started_at_ms=100,
            join_ms=3,
            sync_ms=7,
            outcome="completed",
            trigger="JOIN_NEW",
            reason="JOIN_NEW of a",
            client_id="a",
            coalesced=(),
            members_before=0,
            members_after=1,
            joined=("a-1",),
            left=(),
            partitions_assigned=2,
            partitions_moved=0,
            partitions_new=2,
            planned=True,
            confidence="high",
        )
    ]


def test_triggers_during_a_rebalance_stay_visible():
    events = [
        *START,
        _trigger(200, "JOIN_NEW", "b"),
        _trigger(201, "EXPIRE_HEARTBEAT", "a", coalesced=True),
        _trigger(202, "JOIN_NEW", "c", coalesced=True),
        _event(210, "join_completed", 2, members=_members("b-1", "c-1")),
        _event(215, "sync_completed", 2, members=_members("b-1", "c-1", assignment={"b-1": [0], "c-1": [1]})),
    ]
    row = rebalances(events)[1]
    assert (row.trigger, row.coalesced) == ("JOIN_NEW", ("EXPIRE_HEARTBEAT", "JOIN_NEW"))
    assert (row.joined, row.left, row.members_before, row.members_after) == (("b-1", "c-1"), ("a-1",), 1, 2)
    assert (row.partitions_moved, row.planned, row.confidence) == (2, False, "high")


def test_a_rebalance_that_never_synced_is_superseded():
    events = [
        *START,
        _trigger(200, "JOIN_NEW", "b"),
        _event(210, "join_completed", 2, members=_members("a-1", "b-1")),
        _trigger(500, "SYNC_TIMEOUT", "a", state_from="CompletingRebalance", generation=2),
        _event(510, "join_completed", 3, members=_members("b-1")),
        _event(511, "sync_completed", 3, members=_members("b-1", assignment={"b-1": [0, 1]})),
    ]
    _, superseded, last = rebalances(events)
    assert (superseded.outcome, superseded.generation, superseded.join_ms, superseded.sync_ms) == ("superseded", 2, 10, None)
    assert (superseded.members_after, superseded.partitions_moved) == (2, None)
    assert (last.outcome, last.members_before, last.left, last.planned) == ("completed", 2, ("a-1",), False)


def test_a_rebalance_that_has_not_ended_is_open():
    row = rebalances([*START, _trigger(200, "LEAVE")])[1]
    assert (row.outcome, row.generation, row.join_ms, row.members_before, row.members_after) == ("open", None, None, 1, None)
    assert (row.joined, row.left) == (None, None)


def test_the_last_member_leaves():
    row = rebalances([*START, _trigger(200, "LEAVE"), _event(200, "emptied", 2)])[1]
    assert (row.outcome, row.generation, row.members_after, row.left) == ("emptied", 2, 0, ("a-1",))
    assert (row.join_ms, row.sync_ms, row.planned, row.confidence) == (0, None, True, "medium")


@pytest.mark.parametrize("kind", ["loaded", "deleted"])
def test_a_rebalance_that_the_coordinator_lost_is_interrupted(kind: str):
    events = [
        *START,
        _trigger(200, "JOIN_NEW", "b"),
        _event(900, kind, members=_members("a-1", assignment={"a-1": [0, 1]})),
        _trigger(950, "JOIN_NEW", "b"),
        _event(960, "join_completed", 2, members=_members("a-1", "b-1")),
    ]
    _, interrupted, following = rebalances(events)
    assert (interrupted.outcome, interrupted.members_after) == ("interrupted", None)
    assert (following.outcome, following.members_before, following.joined) == ("open", 1, ("b-1",))


def test_what_events_that_begin_during_a_rebalance_do_not_say_is_none():
    events = [
        _event(110, "sync_completed", 7, members=_members("a-1", assignment={"a-1": [0]})),
        _trigger(200, "JOIN_NEW", "b"),
    ]
    first, _ = rebalances(events)
    assert (first.outcome, first.generation, first.trigger, first.join_ms, first.sync_ms) == ("completed", 7, None, None, None)
    assert (first.members_before, first.joined, first.planned, first.confidence) == (None, None, None, "low")


def test_a_loaded_group_is_the_state_before():
    events = [
        _event(50, "loaded", 4, members=_members("a-1", assignment={"a-1": [0, 1]})),
        _trigger(200, "JOIN_NEW", "b"),
        _event(210, "join_completed", 5, members=_members("a-1", "b-1")),
        _event(215, "sync_completed", 5, members=_members("a-1", "b-1", assignment={"a-1": [0], "b-1": [1]})),
    ]
    (row,) = rebalances(events)
    assert (row.members_before, row.joined, row.partitions_moved, row.partitions_new) == (1, ("b-1",), 1, 0)


def test_added_partitions_make_a_rejoin_certain():
    def _rejoin(assignment: dict[str, list[int]]) -> Rebalance:
        events = [
            *START,
            _trigger(200, "LEADER_REJOIN"),
            _event(201, "join_completed", 2, members=_members("a-1")),
            _event(202, "sync_completed", 2, members=_members("a-1", assignment=assignment)),
        ]
        return rebalances(events)[1]

    grown, needless = _rejoin({"a-1": [0, 1, 2, 3]}), _rejoin({"a-1": [0, 1]})
    assert (grown.planned, grown.confidence, grown.partitions_new, grown.partitions_moved) == (True, "high", 2, 0)
    assert (needless.planned, needless.confidence, needless.partitions_new) == (True, "low", 0)


def test_static_members_are_named_by_their_instance_id():
    events = [
        *START,
        _trigger(200, "JOIN_NEW", "b"),
        _event(210, "join_completed", 2, members=_members("a-1", "b-1", instances={"b-1": "i"})),
        _event(211, "static_replaced", 2),
        _event(215, "sync_completed", 2, members=_members("a-1", "b-2", instances={"b-2": "i"})),
    ]
    row = rebalances(events)[1]
    assert (row.outcome, row.joined, row.left) == ("completed", ("i",), ())


def test_groups_are_kept_apart():
    other = [GroupEvent(**{**event.to_dict(), "group": "other", "members": event.members}) for event in START]
    mixed = [event for pair in zip(START, other, strict=True) for event in pair]
    assert [(row.group, row.outcome, row.members_before) for row in rebalances(mixed)] == [("g", "completed", 0), ("other", "completed", 0)]
