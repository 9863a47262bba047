"""Snapshots of groups, as the admin API describes them from time to time, to evidence: what two looks at a group differ in.

The weakest source: what happened and ended between two looks is not seen, nothing says why, and a classic group has no generation here.
Every time is that of the second look; `poll_gap_ms` is how long before it the first one was.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.consumer_records import LEFT_OR_FENCED
from ottla.core.diagnosis.evidence.model import CommitSpan, Evidence, Kind, Source, about_member
from ottla.core.model import EventMember, TopicPartition

ADMIN_CLOCK: Final = "admin"
"""The clock of the program that asks."""
REBALANCING: Final = frozenset({"PreparingRebalance", "CompletingRebalance", "Assigning", "Reconciling"})
EMPTY, DEAD, STABLE = "Empty", "Dead", "Stable"
_LEFT: Final = (*LEFT_OR_FENCED, Cause.JOIN_TIMEOUT.value, Cause.ADMIN.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """A group at one look. `state` is Kafka's word, Dead for a group that does not exist any more; the epochs are those of KIP-848.

    `committed`: offset by partition; `ends`: the ends of these partitions, where they were asked for. Timeouts of members are not known.
    """

    at_ms: int
    group: str
    group_type: str
    state: str
    protocol: str = ""
    epoch: int | None = None
    target_epoch: int | None = None
    members: tuple[EventMember, ...] = ()
    committed: Mapping[TopicPartition, int] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)


class AdminSnapshots:
    """Compares each snapshot of a group with the one before."""

    def __init__(self, *, clock: str = ADMIN_CLOCK) -> None:
        self._clock = clock
        self._last: dict[str, GroupSnapshot] = {}

    def read(self, now: GroupSnapshot, *, polled_before_ms: int | None = None) -> Iterator[Evidence]:
        """The evidence of one more snapshot. `polled_before_ms`: the last look at the group, where unchanged ones are not given."""
        before = self._last.get(now.group)
        if before is not None and now.at_ms < before.at_ms:
            return
        if now.state == DEAD:
            self._last.pop(now.group, None)
        else:
            self._last[now.group] = now
        head = Evidence(
            at_ms=now.at_ms,
            source=Source.ADMIN,
            clock=self._clock,
            kind=Kind.OBSERVED,
            group=now.group,
            group_type=now.group_type,
            protocol=now.protocol or None,
        )
        if before is None:
            if now.state != DEAD:
                yield replace(head, generation=now.epoch, members=now.members)
            return
        gap_ms = now.at_ms - (before.at_ms if polled_before_ms is None else polled_before_ms)
        head = replace(head, evidence={"poll_gap_ms": max(0, gap_ms)})
        yield from _commits(now, before, head)
        if now.state == DEAD:
            yield replace(head, kind=Kind.DELETED)
        elif now.group_type != before.group_type:
            yield replace(head, kind=Kind.CONVERTED, generation=now.epoch, members=now.members)
        else:
            yield from _changes(now, before, head)


def _commits(now: GroupSnapshot, before: GroupSnapshot, head: Evidence) -> Iterator[Evidence]:
    """Partitions whose committed offset changed: at least one commit each."""
    moved = {
        partition: CommitSpan(now.at_ms, now.at_ms, offset, offset, 1)
        for partition, offset in now.committed.items()
        if before.committed.get(partition) != offset
    }
    if moved:
        yield replace(head, kind=Kind.COMMITS, commits=moved)


def _changes(now: GroupSnapshot, before: GroupSnapshot, head: Evidence) -> Iterator[Evidence]:
    joined, left, replaced = _compare(now.members, before.members)
    epoch = now.epoch
    has_changed = bool(joined or left) or now.epoch != before.epoch
    if replaced and not has_changed and now.state == before.state == STABLE:
        for member, old in replaced:
            yield about_member(replace(head, kind=Kind.STATIC_REPLACED, generation=epoch, reason=f"replaces {old.member_id}"), member)
    for member in left:
        yield about_member(replace(head, kind=Kind.MEMBER_LEFT, generation=epoch, candidates=_LEFT), member)
    for member in joined:
        yield about_member(replace(head, kind=Kind.MEMBER_JOINED, generation=epoch), member)
    if now.state in REBALANCING and before.state not in REBALANCING:
        yield replace(head, kind=Kind.TRIGGER, generation=before.epoch, reason=f"the group is {now.state}")
    if epoch is not None and epoch != before.epoch and now.members:
        yield replace(head, kind=Kind.JOIN_COMPLETED, generation=epoch, members=now.members)
    if now.state == EMPTY:
        if before.state != EMPTY:
            yield replace(head, kind=Kind.EMPTIED, generation=epoch, members=())
    elif now.target_epoch != before.target_epoch and now.members:
        yield replace(head, kind=Kind.SYNC_COMPLETED, generation=now.target_epoch, members=now.members)
    elif epoch is None and now.state == STABLE and (before.state != STABLE or has_changed or _assigned(now) != _assigned(before)):
        yield replace(head, kind=Kind.SYNC_COMPLETED, members=now.members)


def _compare(
    now: tuple[EventMember, ...], before: tuple[EventMember, ...]
) -> tuple[list[EventMember], list[EventMember], list[tuple[EventMember, EventMember]]]:
    """Members that joined, that left, and static ones with another member id, beside their former selves."""
    new, old = {_key(member): member for member in now}, {_key(member): member for member in before}
    replaced = [(member, old[name]) for name, member in new.items() if name in old and member.member_id != old[name].member_id]
    return [new[name] for name in new if name not in old], [old[name] for name in old if name not in new], replaced


def _key(member: EventMember) -> str:
    return member.instance_id or member.member_id


def _assigned(snapshot: GroupSnapshot) -> dict[str, object]:
    return {_key(member): member.assignment for member in snapshot.members}
