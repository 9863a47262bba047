"""What others see of groups: frozen copies for test oracles, tools and diagnosis, and summaries for metrics."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from ottla.protocol.coordinator_records import GroupMetadataValue, OffsetValue


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberSnapshot:
    """A member. `parked_in` is "JoinGroup", "SyncGroup" or None; `session_deadline_ms` is None while no session timeout runs."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...]
    assignment: bytes
    assigned: Mapping[str, tuple[int, ...]]
    parked_in: str | None
    is_new: bool
    last_seen_ms: int
    session_deadline_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSnapshot:
    """All of a group; a deadline is None while its timer is not armed.

    `metadata` is its record in the log, `offsets` the committed offsets by topic and partition.
    """

    group_id: str
    state: str
    state_since_ms: int
    generation: int
    metadata: GroupMetadataValue | None
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    subscribed_topics: frozenset[str] | None
    members: tuple[MemberSnapshot, ...]
    pending_member_ids: tuple[str, ...]
    pending_sync_ids: tuple[str, ...]
    join_deadline_ms: int | None
    sync_deadline_ms: int | None
    offsets: Mapping[str, Mapping[int, OffsetValue]]


@dataclass(frozen=True, slots=True, kw_only=True)
class CoordinatorSnapshot:
    """All groups of one coordinator."""

    partition: int
    node_id: int
    status: str
    groups: tuple[GroupSnapshot, ...]


class GroupSummary(NamedTuple):
    """A group with counts in place of members and offsets, cheap enough for metrics of 20,000 groups.

    `pending` counts the member ids that were handed out and have not joined yet.
    `offset_commits` counts the offsets committed since this coordinator started.
    """

    group_id: str
    state: str
    generation: int
    protocol_type: str
    protocol: str
    members: int
    static_members: int
    pending: int
    offset_commits: int
    group_type: str = "classic"


class MemberAssignment(NamedTuple):
    """The partitions that are assigned to one member of a stable group."""

    member_id: str
    client_id: str
    client_host: str
    partitions: tuple[tuple[str, int], ...]
