"""The events of groups: what happened, its trigger, the members at that time, and the JSON that is published.

One event per occurrence, also where Kafka is silent because a rebalance is already in progress. Events never change a group.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Any, Final

from ottla.coordinator.effects import LazySequence
from ottla.protocol.errors import PeerError
from ottla.protocol.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_assignment

NO_REASON = "not provided"
"""What Kafka prints where the client gave no reason."""


class TriggerCode(StrEnum):
    """What the coordinator saw that makes a group rebalance, or that did not have to (docs/rebalances.md)."""

    JOIN_NEW = "JOIN_NEW"
    LEAVE = "LEAVE"
    POLL_TIMEOUT = "POLL_TIMEOUT"
    ADMIN_REMOVE = "ADMIN_REMOVE"
    EXPIRE_HEARTBEAT = "EXPIRE_HEARTBEAT"
    JOIN_TIMEOUT = "JOIN_TIMEOUT"
    SYNC_TIMEOUT = "SYNC_TIMEOUT"
    LEADER_REJOIN = "LEADER_REJOIN"
    METADATA_UPDATE = "METADATA_UPDATE"
    ASSIGNOR_CHANGE = "ASSIGNOR_CHANGE"
    STATIC_REJOIN = "STATIC_REJOIN"
    STATIC_FENCED = "STATIC_FENCED"
    REBALANCE_TIMEOUT = "REBALANCE_TIMEOUT"
    SUBSCRIPTION_CHANGE = "SUBSCRIPTION_CHANGE"
    REGEX_CHANGE = "REGEX_CHANGE"
    TOPIC_CHANGE = "TOPIC_CHANGE"
    STORE_ERROR = "STORE_ERROR"
    CAPACITY = "CAPACITY"


@dataclass(frozen=True, slots=True, kw_only=True)
class EventMember:
    """A member as a group event shows it. `assignment` maps a topic to its partition numbers (empty until synced)."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    assignment: Mapping[str, Sequence[int]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupEvent:
    """One thing that happened to one group, as published to `__ottla_group_events` and to callbacks.

    kind: `trigger` (something asked for a rebalance; `coalesced`: one had already begun), `join_completed` (a new generation is formed;
    `members` are all of them, without assignments), `sync_completed` (the assignment is stored, the group is Stable; `members` carry their
    assignments), `emptied` (the last member is gone), `static_replaced` (a static member came back: no rebalance), `static_fenced` (a
    second process used its instance id), `loaded` (read back from the log), `offsets_expired` (offsets became too old: evidence
    `offset_count`, Kafka's `offset-expiration`), `offsets_deleted` (by OffsetDelete or with their topic, as `reason` says: evidence
    `offset_count`), `deleted` (by DeleteGroups, with `offset_count` offsets, or because neither members nor offsets were left).
    `converted` (the group has the type `group_type` from now on, with these `members`). Only consumer groups have `epoch_bumped` (the group
    epoch was increased to `generation`: one event for each trigger, `coalesced` where members still wait for a target),
    `target_assigned` (the target assignment of `generation`: `members` have their targets), `member_reconciled` (a member whose partitions
    the target of `generation` changed has given up what it had to: evidence `revocation_ms` since it was asked; or has all of its target:
    `reconciliation_ms` since that was computed), `static_left` (a static member left for now, with `members` what waits for it) and
    `join_refused` (another member has its instance id and has not left; in a classic group, without a trigger: it shares no assignor).
    trigger: a `TriggerCode` (docs/rebalances.md), e.g. JOIN_NEW, LEAVE, EXPIRE_HEARTBEAT, JOIN_TIMEOUT, SYNC_TIMEOUT, LEADER_REJOIN,
    METADATA_UPDATE, ASSIGNOR_CHANGE, STORE_ERROR, CAPACITY; only on `trigger`, `epoch_bumped` and static events. `reason` is the text
    that Apache Kafka logs. group_type: `classic` or `consumer` (KIP-848).
    evidence: numbers behind the trigger, units in the names, e.g. `last_heartbeat_age_ms`.
    """

    at_ms: int
    group: str
    kind: str
    generation: int
    state_from: str
    state_to: str
    trigger: str | None = None
    coalesced: bool = False
    reason: str | None = None
    member_id: str | None = None
    instance_id: str | None = None
    client_id: str | None = None
    client_host: str | None = None
    client_reason: str | None = None
    protocol: str | None = None
    leader: str | None = None
    members: Sequence[EventMember] = ()
    evidence: Mapping[str, int] = field(default_factory=dict)
    group_type: str = "classic"

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON-ready values: the record that is published."""
        return asdict(replace(self, members=tuple(self.members)))


def reason_or_default(client_reason: str | None) -> str:
    """The client's reason as Kafka prints it."""
    return client_reason or NO_REASON


MemberRow = tuple[str, str | None, str, str, int, int, bytes | Mapping[str, Sequence[int]]]
"""Member id, instance id, client id and host, session and rebalance timeout in ms, and assignment: bytes (empty before SyncGroup), or
partitions by topic."""


class EventMembers(LazySequence[EventMember]):
    """The members of an event, created from rows on demand and at most once: a large group completes a rebalance without creating them.

    They are the members at the time of the event. Assignments of other protocols than the consumer protocol are empty.
    """

    __slots__ = ("_items", "protocol_type", "rows")

    def __init__(self, protocol_type: str | None, rows: Sequence[MemberRow]) -> None:
        self.protocol_type = protocol_type
        self.rows = rows
        self._items: tuple[EventMember, ...] | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def _make(self) -> tuple[EventMember, ...]:
        if self._items is None:
            self._items = self._create()
        return self._items

    def _create(self) -> tuple[EventMember, ...]:
        return tuple(
            EventMember(
                member_id=member_id,
                instance_id=instance_id,
                client_id=client_id,
                client_host=client_host,
                session_timeout_ms=session_timeout_ms,
                rebalance_timeout_ms=rebalance_timeout_ms,
                assignment=readable_assignment(self.protocol_type, assignment) if isinstance(assignment, bytes) else assignment,
            )
            for member_id, instance_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms, assignment in self.rows
        )


def readable_assignment(protocol_type: str | None, assignment: bytes) -> Mapping[str, tuple[int, ...]]:
    """Partitions by topic; empty where the bytes are not a consumer's assignment."""
    if protocol_type != CONSUMER_PROTOCOL_TYPE:
        return {}
    try:
        return parse_assignment(assignment)
    except PeerError:
        return {}


_CACHED_ASSIGNMENTS_MAX: Final = 8_192
_CACHED_BYTES_MAX: Final = 512
"""Small assignments are cached, since they repeat from rebalance to rebalance."""


def event_json(event: GroupEvent) -> bytes:
    """Encode the event as the value of its record: what `json.dumps` makes of `GroupEvent.to_dict`.

    A rebalance publishes all members twice. In a group of thousands their JSON is assembled from text instead of from objects.
    """
    members = event.members
    if isinstance(members, EventMembers):
        written = ",".join([_row(members.protocol_type, row) for row in members.rows])
    else:
        written = ",".join([_dumps(_plain(member)) for member in members])
    head = {
        "at_ms": event.at_ms,
        "group": event.group,
        "kind": event.kind,
        "generation": event.generation,
        "state_from": event.state_from,
        "state_to": event.state_to,
        "trigger": event.trigger,
        "coalesced": event.coalesced,
        "reason": event.reason,
        "member_id": event.member_id,
        "instance_id": event.instance_id,
        "client_id": event.client_id,
        "client_host": event.client_host,
        "client_reason": event.client_reason,
        "protocol": event.protocol,
        "leader": event.leader,
    }
    evidence, group_type = _dumps(dict(event.evidence)), _dumps(event.group_type)
    return f'{_dumps(head)[:-1]},"members":[{written}],"evidence":{evidence},"group_type":{group_type}}}'.encode()


_dumps = json.JSONEncoder(separators=(",", ":")).encode


def _plain(member: EventMember) -> dict[str, object]:
    return {name: getattr(member, name) for name in EventMember.__slots__}


def _row(protocol_type: str | None, row: MemberRow) -> str:
    quoted = encode_basestring_ascii
    member_id, instance_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms, assignment = row
    instance = "null" if instance_id is None else quoted(instance_id)
    if not assignment:
        assigned = "{}"
    elif not isinstance(assignment, bytes):
        assigned = _partitions(assignment)
    else:
        encode = _assignment if len(assignment) <= _CACHED_BYTES_MAX else _assignment.__wrapped__
        assigned = encode(protocol_type, assignment)
    return (
        f'{{"member_id":{quoted(member_id)},"instance_id":{instance},"client_id":{quoted(client_id)},'
        f'"client_host":{quoted(client_host)},"session_timeout_ms":{session_timeout_ms},'
        f'"rebalance_timeout_ms":{rebalance_timeout_ms},"assignment":{assigned}}}'
    )


@lru_cache(maxsize=_CACHED_ASSIGNMENTS_MAX)
def _assignment(protocol_type: str | None, assignment: bytes) -> str:
    return _partitions(readable_assignment(protocol_type, assignment))


def _partitions(assignment: Mapping[str, Sequence[int]]) -> str:
    topics = [f"{encode_basestring_ascii(topic)}:[{','.join(map(str, numbers))}]" for topic, numbers in assignment.items()]
    return f"{{{','.join(topics)}}}"
