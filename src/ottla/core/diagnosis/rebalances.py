"""Group events to one row a rebalance: the plain reference that the Spark pipeline `rebalances` is held equal to.

A round starts with its first trigger, forms a generation (join), and ends with a stored plan (sync). Every round gives a row, also one that
was overtaken by the next or never ended. It reads events only, in the order in which they were published.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ottla.core.diagnosis.causes import CONFIDENCES, Verdict, judge_round, judge_triggers
from ottla.core.diagnosis.ownership import Owners, Plan
from ottla.core.model import EventMember, GroupEvent

TRIGGER, JOINED, SYNCED, EMPTIED, LOADED, DELETED = "trigger", "join_completed", "sync_completed", "emptied", "loaded", "deleted"

STARTS_UNLESS_AFTER = {TRIGGER: TRIGGER, JOINED: TRIGGER, SYNCED: JOINED, EMPTIED: TRIGGER}
"""An event of this kind starts a round unless the event before it was of that kind: a trigger after a trigger is coalesced, a trigger
after a join overtakes a round that never synced, and a join without a trigger began before the events do."""

INTERRUPTS = (LOADED, DELETED)
PHASES = (TRIGGER, JOINED, SYNCED, EMPTIED, LOADED, DELETED)
MEMBERSHIP = (JOINED, SYNCED, EMPTIED, LOADED, DELETED)
PLANS = (SYNCED, LOADED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """One rebalance of one group. None stands for what the events do not say.

    `outcome`: completed (synced), emptied (the last member is gone), superseded (the next round began before the plan was stored),
    interrupted (the coordinator was loaded anew, or the group deleted), open (under way when the events end).
    `trigger` and `reason` are the first trigger's; `coalesced` are the codes of those that came while the round was under way.
    `joined`, `left` name members by instance id, or else by member id. `partitions_moved` counts the plan's partitions whose last known
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
    owners, has_plan = Owners(), False
    members: frozenset[str] | None = None
    found: list[Rebalance] = []
    prologue, rounds = _split(events)
    for at, of_round in enumerate([prologue, *rounds]):
        before, plan, had_plan = members, None, has_plan
        for event in of_round:
            if event.kind in MEMBERSHIP:
                members = _names(event.members)
            if event.kind in PLANS:
                taken = owners.take(event.members)
                plan = taken if event.kind == SYNCED else plan
                has_plan = True
        if at > 0:
            is_last = at == len(rounds)
            judged = [(event.trigger or "", verdicts[id(event)]) for event in of_round if event.kind == TRIGGER]
            verdict = judge_round(judged, has_new_partitions=plan is not None and plan.new > 0 and had_plan)
            found.append(_rebalance(of_round, before, plan, verdict, is_last=is_last))
    return found


def _split(events: list[GroupEvent]) -> tuple[list[GroupEvent], list[list[GroupEvent]]]:
    """What comes before the first round, and the events of each round."""
    prologue: list[GroupEvent] = []
    rounds: list[list[GroupEvent]] = []
    last_kind: str | None = None
    for event in events:
        if event.kind in STARTS_UNLESS_AFTER and STARTS_UNLESS_AFTER[event.kind] != last_kind:
            rounds.append([])
        (rounds[-1] if rounds else prologue).append(event)
        last_kind = event.kind
    return prologue, rounds


def _rebalance(events: list[GroupEvent], before: frozenset[str] | None, plan: Plan | None, verdict: Verdict, *, is_last: bool) -> Rebalance:
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
        partitions_assigned=plan and plan.assigned,
        partitions_moved=plan and plan.moved,
        partitions_new=plan and plan.new,
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
