"""The history of a group from its events: each rebalance with what is known of it."""

from collections.abc import Iterable
from dataclasses import replace

from ottla.groups.events import EventMember, GroupEvent
from ottla.history.group_history import GroupHistory, Rebalance, histories_of_events
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import Confidence


def history(events: Iterable[GroupEvent]) -> GroupHistory:
    return histories_of_events(events)["g"]


def rebalances(events: Iterable[GroupEvent]) -> list[Rebalance]:
    return list(history(events).generations())


def judged(rebalance: Rebalance) -> tuple[Cause, bool | None, Confidence]:
    return rebalance.verdict.cause, rebalance.verdict.planned, rebalance.verdict.confidence


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


def test_a_new_group_of_one() -> None:
    found = history(START)
    (row,) = found.rebalances
    assert (row.group, row.generation, row.started_ms, row.join_ms, row.sync_ms, row.outcome) == ("g", 1, 100, 3, 7, "completed")
    assert (row.trigger, row.triggers[0].reason, row.triggers[0].client_id, row.coalesced) == ("JOIN_NEW", "JOIN_NEW of a", "a", ())
    assert (row.members_before, row.members_after, row.joined, row.left) == (0, 1, ("a-1",), ())
    assert (row.partitions_assigned, row.partitions_moved, row.partitions_new) == (2, 0, 2)
    assert judged(row) == (Cause.COLD_START, True, Confidence.HIGH)
    (member,) = found.members
    assert (member.name, member.ids, member.present) == ("a", ((100, "a-1"),), ((100, None),))
    (assignment,) = found.assignments
    assert (assignment.at_ms, assignment.generation, assignment.owners) == (110, 1, {"a": {"t": [0, 1]}})


def test_triggers_during_a_rebalance_stay_visible() -> None:
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
    assert (row.partitions_moved, *judged(row)) == (2, Cause.EXPIRE_HEARTBEAT, False, Confidence.HIGH)


def test_a_rebalance_that_never_synced_is_superseded() -> None:
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
    assert (last.outcome, last.members_before, last.left, last.verdict.planned) == ("completed", 2, ("a-1",), False)


def test_a_rebalance_that_has_not_ended_is_open() -> None:
    row = rebalances([*START, _trigger(200, "LEAVE")])[1]
    assert (row.outcome, row.generation, row.formed_ms, row.join_ms) == ("open", 2, None, None)
    assert (row.members_before, row.members_after) == (1, None)
    assert (row.joined, row.left) == (None, None)


def test_the_last_member_leaves() -> None:
    row = rebalances([*START, _trigger(200, "LEAVE"), _event(200, "emptied", 2)])[1]
    assert (row.outcome, row.generation, row.members_after, row.left) == ("emptied", 2, 0, ("a-1",))
    assert (row.join_ms, row.sync_ms, *judged(row)) == (0, None, Cause.LEAVE_CLOSE, True, Confidence.MEDIUM)
    assert (row.partitions_assigned, row.partitions_moved) == (None, None)


def test_a_rebalance_that_the_coordinator_lost_is_interrupted() -> None:
    lost = [*START, _trigger(200, "JOIN_NEW", "b"), _event(900, "loaded", members=_members("a-1", assignment={"a-1": [0, 1]}))]
    interrupted = rebalances(lost)[1]
    assert (interrupted.outcome, interrupted.members_after, interrupted.formed_ms) == ("interrupted", None, None)


def test_a_rebalance_that_members_begin_again_after_the_coordinator_moved_is_the_same_one() -> None:
    events = [
        *START,
        _trigger(200, "JOIN_NEW", "b"),
        _event(900, "loaded", members=_members("a-1", assignment={"a-1": [0, 1]})),
        _trigger(950, "JOIN_NEW", "b"),
        _event(960, "join_completed", 2, members=_members("a-1", "b-1")),
    ]
    _, again = rebalances(events)
    assert (again.outcome, again.members_before, again.joined) == ("open", 1, ("b-1",))
    assert (again.started_ms, again.join_ms, again.coalesced) == (200, 760, ("JOIN_NEW",))


def test_a_group_that_was_deleted_starts_again() -> None:
    again = [replace(event, at_ms=event.at_ms + 900) for event in START]
    first, second = rebalances([*START, _event(900, "deleted"), *again])
    assert [each.members_before for each in (first, second)] == [0, 0]
    assert judged(second)[:2] == (Cause.COLD_START, True)


def test_what_events_that_begin_during_a_rebalance_do_not_say_is_none() -> None:
    events = [
        _event(110, "sync_completed", 7, members=_members("a-1", assignment={"a-1": [0]})),
        _trigger(200, "JOIN_NEW", "b", generation=7),
    ]
    first, _ = rebalances(events)
    assert (first.outcome, first.generation, first.trigger, first.join_ms, first.sync_ms) == ("completed", 7, None, None, None)
    assert (first.members_before, first.joined, *judged(first)) == (None, None, Cause.UNKNOWN, None, Confidence.LOW)


def test_a_loaded_group_is_the_state_before() -> None:
    events = [
        _event(50, "loaded", 4, members=_members("a-1", assignment={"a-1": [0, 1]})),
        _trigger(200, "JOIN_NEW", "b", generation=4),
        _event(210, "join_completed", 5, members=_members("a-1", "b-1")),
        _event(215, "sync_completed", 5, members=_members("a-1", "b-1", assignment={"a-1": [0], "b-1": [1]})),
    ]
    (row,) = rebalances(events)
    assert (row.members_before, row.joined, row.partitions_moved, row.partitions_new) == (1, ("b-1",), 1, 0)


def test_added_partitions_explain_a_rejoin_and_nothing_explains_another() -> None:
    def rejoin(assignment: dict[str, list[int]]) -> Rebalance:
        events = [
            *START,
            _trigger(200, "LEADER_REJOIN"),
            _event(201, "join_completed", 2, members=_members("a-1")),
            _event(202, "sync_completed", 2, members=_members("a-1", assignment=assignment)),
        ]
        return rebalances(events)[1]

    grown, needless = rejoin({"a-1": [0, 1, 2, 3]}), rejoin({"a-1": [0, 1]})
    assert (*judged(grown)[:2], grown.partitions_new, grown.partitions_moved) == (Cause.TOPIC_CHANGE, True, 2, 0)
    assert (*judged(needless)[:2], needless.partitions_new) == (Cause.LEADER_REJOIN_SPURIOUS, False, 0)


def test_second_halves_of_cooperative_rebalances_have_a_generation_of_their_own() -> None:
    def synced(at_ms: int, generation: int, **assignment: list[int]) -> GroupEvent:
        owned = {f"{name}-1": numbers for name, numbers in assignment.items()}
        return _event(at_ms, "sync_completed", generation, members=_members("a-1", "b-1", assignment=owned), protocol="cooperative-sticky")

    events = [
        *START,
        _trigger(60_200, "JOIN_NEW", "b"),
        _event(60_210, "join_completed", 2, members=_members("a-1", "b-1")),
        synced(60_215, 2, a=[0]),
        _trigger(60_220, "METADATA_UPDATE", "a", generation=2, client_reason="need to revoke partitions and re-join"),
        _event(60_225, "join_completed", 3, members=_members("a-1", "b-1")),
        synced(60_230, 3, a=[0], b=[1]),
    ]
    found = history(events)
    assert [each.verdict.cause for each in found.rebalances] == [Cause.COLD_START, Cause.JOIN_NEW]
    first, second = rebalances(events)[1:]
    assert (first.generation, first.partitions_assigned, first.partitions_moved, first.sync_ms) == (2, 1, 0, 5)
    assert (second.generation, second.partitions_assigned, second.partitions_moved, second.outcome) == (3, 2, 1, "completed")
    assert judged(second)[:2] == (Cause.COOP_FOLLOWUP, True)
    assert [assignment.owners for assignment in found.assignments][1:] == [{"a": {"t": [0]}}, {"a": {"t": [0]}, "b": {"t": [1]}}]


def test_static_members_are_named_by_their_instance_id() -> None:
    events = [
        *START,
        _trigger(200, "JOIN_NEW", "b"),
        _event(210, "join_completed", 2, members=_members("a-1", "b-1", instances={"b-1": "i"})),
        _event(211, "static_replaced", 2),
        _event(215, "sync_completed", 2, members=_members("a-1", "b-2", instances={"b-2": "i"})),
    ]
    row = rebalances(events)[1]
    assert (row.outcome, row.joined, row.left) == ("completed", ("i",), ())


def test_groups_are_kept_apart() -> None:
    other = [replace(event, group="other") for event in START]
    mixed = [event for pair in zip(START, other, strict=True) for event in pair]
    histories = histories_of_events(mixed)
    assert {name: [each.outcome for each in found.rebalances] for name, found in histories.items()} == {
        "g": ["completed"],
        "other": ["completed"],
    }
