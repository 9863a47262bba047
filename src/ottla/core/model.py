"""Small values that all packages share: records, and the events a group coordinator publishes."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, NamedTuple

TAGGED_FIELDS_MAX: Final = 100
"""In one structure of a message (KIP-482). Kafka's own have at most 5; a section of millions would take seconds to skip."""


class TopicPartition(NamedTuple):
    """One partition of a topic, by name and number."""

    topic: str
    partition: int


class Header(NamedTuple):
    """One record header; the value may be null."""

    key: str
    value: bytes | None


class Record(NamedTuple):
    """One record: `offset` is absolute, `timestamp_ms` is milliseconds since 1970 (-1: none)."""

    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class OffsetCommit(NamedTuple):
    """An offset that a group committed, as a record of the offsets topic has it; `offset` None: it was deleted or expired.

    `topic_id`: 22 letters of base64, "" where the record has none.
    """

    group: str
    topic: str
    partition: int
    offset: int | None
    topic_id: str


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
    trigger: a cause code (docs/rebalances.md), e.g. JOIN_NEW, LEAVE, EXPIRE_HEARTBEAT, JOIN_TIMEOUT, SYNC_TIMEOUT, LEADER_REJOIN,
    METADATA_UPDATE, ASSIGNOR_CHANGE, STORE_ERROR, CAPACITY; only on `trigger` events. `reason` is the text that Apache Kafka logs.
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

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON-ready values: the record that is published."""
        return asdict(replace(self, members=tuple(self.members)))
