"""Classic groups from their records (GroupMetadata, type 2): a record for each generation that synced, became empty, or had a static
member replaced, and a tombstone when the group is deleted or converted.

It reads one group's records in order and compares each with the one before. Causes are not decided here.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.core.diagnosis.evidence.model import Evidence, Kind, about_member
from ottla.core.model import EventMember

CLASSIC: Final = "classic"
_NO_TIME: Final = -1


@dataclass(frozen=True, slots=True)
class _Subscription:
    """What a member joined with: the topics it subscribes to, and the number of partitions that it still owned."""

    topics: frozenset[str]
    owned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClassicGroup:
    """A group at one record."""

    generation: int
    protocol: str | None
    members: tuple[EventMember, ...]
    subscriptions: Mapping[str, _Subscription]


def read_classic_group(value: Mapping[str, Any]) -> ClassicGroup:
    """A group from the fields of its record's value; members of other protocols than the consumer's have no assignment."""
    members: Sequence[Mapping[str, Any]] = value["members"]
    return ClassicGroup(
        generation=value["generation"],
        protocol=value["protocol"],
        members=tuple(map(_member, members)),
        subscriptions={member.get("groupInstanceId") or member["memberId"]: _subscription(member) for member in members},
    )


def _member(member: Mapping[str, Any]) -> EventMember:
    session_timeout_ms = member["sessionTimeout"]
    rebalance_timeout_ms = member.get("rebalanceTimeout", _NO_TIME)
    return EventMember(
        member_id=member["memberId"],
        instance_id=member.get("groupInstanceId"),
        client_id=member["clientId"],
        client_host=member["clientHost"],
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == _NO_TIME else rebalance_timeout_ms,
        assignment=_partitions(member["assignment"], "assignedPartitions"),
    )


def _subscription(member: Mapping[str, Any]) -> _Subscription:
    subscription = member["subscription"]
    topics = subscription.get("topics") or () if isinstance(subscription, dict) else ()
    return _Subscription(frozenset(topics), sum(map(len, _partitions(subscription, "ownedPartitions").values())))


def _partitions(embedded: object, name: str) -> dict[str, tuple[int, ...]]:
    """Partitions by topic of a consumer's own bytes, which were decoded if they are the consumer protocol's."""
    if not isinstance(embedded, dict):
        return {}
    found: dict[str, tuple[int, ...]] = {}
    for entry in embedded.get(name) or ():
        found[entry["topic"]] = found.get(entry["topic"], ()) + tuple(entry["partitions"])
    return found


def evidence_of_record(value: Mapping[str, Any], now: ClassicGroup, before: ClassicGroup | None, head: Evidence) -> Iterator[Evidence]:
    """What one record shows beside the one before it. `head` has the time, the source and the group."""
    if not now.members:
        if before is not None or now.generation > 0:  # an empty generation 0 is only the group's creation
            yield replace(head, kind=Kind.EMPTIED, generation=now.generation, members=(), evidence=_steps(now, before))
        return
    head = replace(
        head,
        generation=now.generation,
        protocol=now.protocol,
        leader=value["leader"],
        members=now.members,
        topics=frozenset().union(*(each.topics for each in now.subscriptions.values())),
    )
    if before is None or before.generation != now.generation:
        yield replace(
            head, kind=Kind.SYNC_COMPLETED, evidence=_sync_figures(value, head.at_ms) | _steps(now, before) | _rejoins(now, before)
        )
        return
    replaced = _replaced(now, before)
    for member, old in replaced:
        yield about_member(replace(head, kind=Kind.STATIC_REPLACED, reason=f"replaces {old.member_id}"), member)
    if not replaced and now.members != before.members:
        yield replace(head, kind=Kind.SYNC_COMPLETED, evidence=_sync_figures(value, head.at_ms))


def _replaced(now: ClassicGroup, before: ClassicGroup) -> list[tuple[EventMember, EventMember]]:
    """Static members that have another member id than before, each with its former self."""
    statics = {member.instance_id: member for member in before.members if member.instance_id is not None}
    pairs = ((member, statics[member.instance_id]) for member in now.members if member.instance_id in statics)
    return [(member, old) for member, old in pairs if member.member_id != old.member_id]


def _sync_figures(value: Mapping[str, Any], at_ms: int) -> dict[str, int]:
    """The end of the join, from which to the record's own time members waited for the assignment."""
    joined_ms = value.get("currentStateTimestamp", _NO_TIME)
    return {} if joined_ms == _NO_TIME else {"join_completed_ms": joined_ms, "sync_ms": max(0, at_ms - joined_ms)}


def _steps(now: ClassicGroup, before: ClassicGroup | None) -> dict[str, int]:
    """Generations in between that were formed and never synced."""
    if before is None or now.generation <= before.generation:
        return {}
    return {"generations_skipped": now.generation - before.generation - 1}


def _rejoins(now: ClassicGroup, before: ClassicGroup | None) -> dict[str, int]:
    """Of the members that stayed: how many subscribe to other topics, and how many came with fewer partitions than they had been given.

    The latter only where members keep partitions through a rebalance (cooperative): all others come with none.
    """
    if before is None:
        return {}
    given = {each.instance_id or each.member_id: sum(map(len, each.assignment.values())) for each in before.members}
    stayed = [(name, now.subscriptions[name], before.subscriptions[name]) for name in now.subscriptions if name in before.subscriptions]
    figures = {"members_resubscribed": sum(new.topics != old.topics for _, new, old in stayed)}
    if any(new.owned for _, new, _ in stayed):
        figures["members_revoked"] = sum(new.owned < given[name] for name, new, _ in stayed)
    return figures
