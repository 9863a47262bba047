"""Turns group events into one row for each rebalance: the reference implementation of the Spark pipeline `rebalances`.

A rebalance starts with its first trigger, forms a generation (join), and ends with a stored assignment (sync). Each has a row, also one
that was superseded by the next or never ended. Events are read in the order in which they were published.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.core.diagnosis.causes import CONFIDENCES, Verdict, judge_rebalance, judge_triggers
from ottla.core.diagnosis.ownership import AssignmentChange, Owners
from ottla.core.model import EventMember, GroupEvent

TRIGGER, JOINED, SYNCED, EMPTIED, LOADED, DELETED = "trigger", "join_completed", "sync_completed", "emptied", "loaded", "deleted"

STARTS_UNLESS_AFTER = {TRIGGER: TRIGGER, JOINED: TRIGGER, SYNCED: JOINED, EMPTIED: TRIGGER}
"""An event of this kind starts a rebalance unless the event before it was of that kind: a trigger after a trigger is coalesced, a trigger
after a join supersedes a rebalance that never synced, and a join without a trigger belongs to a rebalance that began before the events."""

INTERRUPTS = (LOADED, DELETED)
PHASES = (TRIGGER, JOINED, SYNCED, EMPTIED, LOADED, DELETED)
MEMBERSHIP = (JOINED, SYNCED, EMPTIED, LOADED, DELETED)
ASSIGNMENTS = (SYNCED, LOADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance of one group. None: the events do not say.

    `outcome`: completed (synced), emptied (the last member is gone), superseded (the next rebalance began before the assignment was
    stored), interrupted (the coordinator was loaded again, or the group deleted), open (not ended when the events end).
    `trigger` and `reason` are the first trigger's; `coalesced` are the codes of those that came during the rebalance.
    `joined`, `left` name members by instance id, or else by member id. `partitions_moved` counts the assigned partitions whose last known
    owner was another (see ownership), `partitions_new` those without one.
    """

    group: str
    generation: int | None
    started_at_ms: int
    join_ms: int | None
    sync_ms: int | None
    outcome: str
    trigger: str | None
    reason: str | None
    client_id: str | None
    coalesced: tuple[str, ...]
    members_before: int | None
    members_after: int | None
    joined: tuple[str, ...] | None
    left: tuple[str, ...] | None
    partitions_assigned: int | None
    partitions_moved: int | None
    partitions_new: int | None
    planned: bool | None
    confidence: str


def rebalances(events: Iterable[GroupEvent]) -> list[Rebalance]:
    """All rebalances in `events`, group by group, each group's in the order in which they began."""
    by_group: dict[str, list[GroupEvent]] = {}
    for event in events:
        if event.kind in PHASES:
            by_group.setdefault(event.group, []).append(event)
    return [rebalance for of_group in by_group.values() for rebalance in _of_group(of_group)]


def _of_group(events: list[GroupEvent]) -> list[Rebalance]:
    triggers = [event for event in events if event.kind == TRIGGER]
    verdicts = dict(zip(map(id, triggers), judge_triggers(triggers), strict=True))
    owners, is_assigned = Owners(), False
    members: frozenset[str] | None = None
    found: list[Rebalance] = []
    prologue, parts = split_by_rebalance(events)
    for at, part in enumerate([prologue, *parts]):
        before, change, was_assigned = members, None, is_assigned
        for event in part:
            if event.kind in MEMBERSHIP:
                members = _names(event.members)
            if event.kind in ASSIGNMENTS:
                update = owners.update(event.members)
                change = update if event.kind == SYNCED else change
                is_assigned = True
        if at > 0:
            is_last = at == len(parts)
            judged = [(event.trigger or "", verdicts[id(event)]) for event in part if event.kind == TRIGGER]
            verdict = judge_rebalance(judged, has_new_partitions=change is not None and change.new > 0 and was_assigned)
            found.append(_rebalance(part, before, change, verdict, is_last=is_last))
    return found


def split_by_rebalance(events: Iterable[GroupEvent]) -> tuple[list[GroupEvent], list[list[GroupEvent]]]:
    """The events of one group before its first rebalance, and those of each rebalance: as many as it has rows in `rebalances`."""
    prologue: list[GroupEvent] = []
    parts: list[list[GroupEvent]] = []
    last_kind: str | None = None
    for event in events:
        if event.kind not in PHASES:
            continue
        if event.kind in STARTS_UNLESS_AFTER and STARTS_UNLESS_AFTER[event.kind] != last_kind:
            parts.append([])
        (parts[-1] if parts else prologue).append(event)
        last_kind = event.kind
    return prologue, parts


def _rebalance(
    events: list[GroupEvent], before: frozenset[str] | None, change: AssignmentChange | None, verdict: Verdict, *, is_last: bool
) -> Rebalance:
    triggers = [event for event in events if event.kind == TRIGGER]
    joined, synced, emptied = (_first(events, kind) for kind in (JOINED, SYNCED, EMPTIED))
    first = triggers[0] if triggers else None
    formed = joined or emptied
    ended = synced or formed
    if before is None and events[0].state_from == "Empty":
        before = frozenset()
    after = None if ended is None else _names(ended.members)
    return Rebalance(
        group=events[0].group,
        generation=None if ended is None else ended.generation,
        started_at_ms=events[0].at_ms,
        join_ms=formed.at_ms - first.at_ms if first and formed else None,
        sync_ms=synced.at_ms - joined.at_ms if joined and synced else None,
        outcome=_outcome(events, is_last=is_last),
        trigger=first.trigger if first else None,
        reason=first.reason if first else None,
        client_id=first.client_id if first else None,
        coalesced=tuple(event.trigger or "" for event in triggers[1:]),
        members_before=None if before is None else len(before),
        members_after=None if after is None else len(after),
        joined=None if before is None or after is None else tuple(sorted(after - before)),
        left=None if before is None or after is None else tuple(sorted(before - after)),
        partitions_assigned=change and change.assigned,
        partitions_moved=change and change.moved,
        partitions_new=change and change.new,
        planned=verdict.planned,
        confidence=CONFIDENCES[verdict.confidence],
    )


def _outcome(events: list[GroupEvent], *, is_last: bool) -> str:
    kinds = {event.kind for event in events}
    if SYNCED in kinds:
        return "completed"
    if EMPTIED in kinds:
        return "emptied"
    if kinds.intersection(INTERRUPTS):
        return "interrupted"
    return "open" if is_last else "superseded"


def _first(events: list[GroupEvent], kind: str) -> GroupEvent | None:
    return next((event for event in events if event.kind == kind), None)


def _names(members: Sequence[EventMember]) -> frozenset[str]:
    return frozenset(member.instance_id or member.member_id for member in members)
