"""Group events of Ottla's broker (`__ottla_group_events`) to evidence: the source that knows triggers, those that came later included.

Its trigger codes say what the coordinator saw; where that leaves several causes, these are the `candidates`, unless a client gave a
reason.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from ottla.groups.events import EventMember, GroupEvent
from ottla.history.sources.consumer_records import AWAY
from ottla.history.sources.evidence import Cause, Evidence, Kind, Source, about_member
from ottla.protocol.model import Record

KINDS: Final[Mapping[str, Kind]] = {
    "trigger": Kind.TRIGGER,
    "join_completed": Kind.JOIN_COMPLETED,
    "sync_completed": Kind.SYNC_COMPLETED,
    "emptied": Kind.EMPTIED,
    "static_replaced": Kind.STATIC_REPLACED,
    "static_fenced": Kind.STATIC_FENCED,
    "loaded": Kind.LOADED,
    "deleted": Kind.DELETED,
    "converted": Kind.CONVERTED,
    "epoch_bumped": Kind.TRIGGER,
    "target_assigned": Kind.SYNC_COMPLETED,
    "member_reconciled": Kind.MEMBER_RECONCILED,
    "static_left": Kind.MEMBER_LEFT,
    "join_refused": Kind.JOIN_REFUSED,
}
"""Events about offsets alone are not evidence of rebalances."""

CODES: Final[Mapping[str, tuple[Cause, ...]]] = {
    "JOIN_NEW": (Cause.JOIN_NEW, Cause.COLD_START, Cause.RESTART_DYNAMIC),
    "LEAVE": (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC),
    "POLL_TIMEOUT": (Cause.POLL_TIMEOUT,),
    "ADMIN_REMOVE": (Cause.ADMIN,),
    "EXPIRE_HEARTBEAT": (Cause.EXPIRE_HEARTBEAT,),
    "JOIN_TIMEOUT": (Cause.JOIN_TIMEOUT,),
    "SYNC_TIMEOUT": (Cause.SYNC_TIMEOUT,),
    "LEADER_REJOIN": (Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS),
    "METADATA_UPDATE": (Cause.SUBSCRIPTION, Cause.COOP_FOLLOWUP, Cause.TOPIC_CHANGE, Cause.ASSIGNOR_CHANGE),
    "ASSIGNOR_CHANGE": (Cause.ASSIGNOR_CHANGE,),
    "STORE_ERROR": (Cause.STORE_ERROR,),
    "CAPACITY": (Cause.CAPACITY,),
    "STATIC_REJOIN": (Cause.STATIC_REJOIN,),
    "STATIC_FENCED": (Cause.STATIC_FENCED,),
    "REBALANCE_TIMEOUT": (Cause.JOIN_TIMEOUT,),
    "SUBSCRIPTION_CHANGE": (Cause.SUBSCRIPTION,),
    "REGEX_CHANGE": (Cause.TOPIC_CHANGE,),
    "TOPIC_CHANGE": (Cause.TOPIC_CHANGE,),
}
"""The causes that each trigger code (docs/rebalances.md) leaves open."""

REASONS: Final = (
    ("consumer is being closed", Cause.LEAVE_CLOSE),
    ("unsubscribed from all topics", Cause.LEAVE_CLOSE),
    ("poll timeout has expired", Cause.POLL_TIMEOUT),
    ("removed by an admin", Cause.ADMIN),
    ("cached metadata has changed", Cause.TOPIC_CHANGE),
    ("subscription has changed", Cause.SUBSCRIPTION),
    ("need to revoke partitions", Cause.COOP_FOLLOWUP),
    ("rebalance enforced by user", Cause.ENFORCED),
)
"""Parts of the reasons that Java's clients give (KIP-800), and the cause that each names."""
BROKER_CLOCK: Final = "broker"
"""The clock of events that come from one broker's callback."""
_TEXTS: Final = ("reason", "member_id", "instance_id", "client_id", "client_host", "client_reason", "protocol", "leader", "trigger")


def evidence_of_events(events: Iterable[GroupEvent], *, clock: str) -> Iterator[Evidence]:
    """The evidence of events in their order. Events about offsets alone are none; an increase of an epoch is a trigger and a new epoch."""
    return (item for event in events for item in _evidence_of(event, clock))


def _evidence_of(event: GroupEvent, clock: str) -> tuple[Evidence, ...]:
    kind = KINDS.get(event.kind)
    if kind is None:
        return ()
    trigger, candidates = causes_of(event.trigger, event.client_reason)
    if event.kind == "join_refused":
        # The rules for a refused instance id look at the member that has it.
        trigger, candidates = (None if event.trigger is not None else Cause.FAILED_JOIN), ()
    found = Evidence(
        at_ms=event.at_ms,
        source=Source.GROUP_EVENTS,
        clock=clock,
        kind=kind,
        group=event.group,
        generation=event.generation,
        trigger=trigger,
        candidates=candidates,
        trigger_code=event.trigger,
        coalesced=event.coalesced,
        reason=event.reason,
        member_id=event.member_id,
        instance_id=event.instance_id,
        client_id=event.client_id,
        client_host=event.client_host,
        client_reason=event.client_reason,
        group_type=event.group_type,
        protocol=event.protocol,
        leader=event.leader,
        members=tuple(event.members) if kind in _WITH_MEMBERS else None,
        evidence=dict(event.evidence),
    )
    if event.kind == "epoch_bumped":
        formed = Evidence(
            at_ms=event.at_ms,
            source=Source.GROUP_EVENTS,
            clock=clock,
            kind=Kind.EMPTIED if event.state_to == "Empty" else Kind.JOIN_COMPLETED,
            group=event.group,
            generation=event.generation,
            group_type=event.group_type,
        )
        return replace(found, generation=event.generation - 1), formed
    if event.kind == "static_left":
        return tuple(about_member(replace(found, candidates=AWAY), member) for member in event.members)
    return (found,)


_WITH_MEMBERS: Final = frozenset(
    {Kind.JOIN_COMPLETED, Kind.SYNC_COMPLETED, Kind.EMPTIED, Kind.LOADED, Kind.STATIC_REPLACED, Kind.CONVERTED}
)


def causes_of(code: str | None, client_reason: str | None) -> tuple[str | None, tuple[str, ...]]:
    """The one cause that a trigger code and a client's reason leave, or else None and all that they leave."""
    if code is None:
        return None, ()
    found = CODES.get(code, ())
    named = next((cause for text, cause in REASONS if client_reason and text in client_reason), None)
    if named is not None and len(found) > 1:
        return named.value, ()
    return (found[0].value, ()) if len(found) == 1 else (None, tuple(cause.value for cause in found))


def read_event(value: bytes | None) -> GroupEvent | None:
    """The event of a record's value; None for bytes that are none."""
    try:
        fields = json.loads(value or b"")
        return _event(fields) if isinstance(fields, dict) else None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _event(fields: Mapping[str, Any]) -> GroupEvent:
    texts = {name: fields.get(name) for name in _TEXTS}
    if not all(text is None or isinstance(text, str) for text in (*texts.values(), fields["group"], fields["kind"])):
        raise TypeError("a text is expected")
    return GroupEvent(
        at_ms=int(fields["at_ms"]),
        group=fields["group"] or "",
        kind=fields["kind"] or "",
        generation=int(fields["generation"]),
        state_from=str(fields.get("state_from", "")),
        state_to=str(fields.get("state_to", "")),
        coalesced=bool(fields.get("coalesced")),
        members=read_members(fields.get("members") or ()),
        evidence={str(name): int(figure) for name, figure in dict(fields.get("evidence") or {}).items()},
        group_type=str(fields.get("group_type") or "classic"),
        **texts,
    )


def read_members(members: Sequence[Mapping[str, Any]]) -> tuple[EventMember, ...]:
    """Members from their JSON, as events and archives have them. Raises ValueError, TypeError or KeyError."""
    return tuple(
        EventMember(
            member_id=str(member["member_id"]),
            instance_id=None if member.get("instance_id") is None else str(member["instance_id"]),
            client_id=str(member["client_id"]),
            client_host=str(member["client_host"]),
            session_timeout_ms=int(member["session_timeout_ms"]),
            rebalance_timeout_ms=int(member["rebalance_timeout_ms"]),
            assignment={str(topic): tuple(map(int, numbers)) for topic, numbers in dict(member.get("assignment") or {}).items()},
        )
        for member in members
    )


def read_group_events(records: Iterable[Record], *, clock: str) -> Iterator[Evidence | None]:
    """The evidence of the records of one partition, in their order; None for a record that cannot be read, so that it can be counted."""
    for record in records:
        event = read_event(record.value)
        if event is None:
            yield None
        else:
            yield from _evidence_of(event, clock)
