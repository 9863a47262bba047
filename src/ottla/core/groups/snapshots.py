"""Snapshots of a coordinator's groups: frozen copies for test oracles, tools and diagnosis."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.member import Member
from ottla.core.groups.coordinator_state import CoordinatorState
from ottla.core.groups.event_members import readable_assignment
from ottla.core.groups.log.records import GroupMetadataValue, OffsetValue
from ottla.core.groups.log.replayed_state import OffsetsByTopic


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
class GroupSummary:
    """A group; a deadline is None while its timer is not armed.

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
    groups: tuple[GroupSummary, ...]


def snapshot_groups(state: CoordinatorState, *, partition: int, node_id: int, status: str) -> CoordinatorSnapshot:
    """A snapshot of all classic groups of one coordinator."""
    replayed = state.replayed
    groups = tuple(
        _snapshot_group(
            group,
            offsets=replayed.offsets.get(group.group_id, {}),
            metadata=replayed.group_metadata.get(group.group_id),
        )
        for group in state.groups.values()
        if isinstance(group, ClassicGroup)
    )
    return CoordinatorSnapshot(partition=partition, node_id=node_id, status=status, groups=groups)


def _snapshot_group(group: ClassicGroup, *, offsets: OffsetsByTopic, metadata: GroupMetadataValue | None) -> GroupSummary:
    return GroupSummary(
        group_id=group.group_id,
        state=group.state.value,
        state_since_ms=group.state_since_ms,
        generation=group.generation,
        metadata=metadata,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        subscribed_topics=group.subscribed_topics,
        members=tuple(_snapshot_member(member, group.protocol_type) for member in group.members.values()),
        pending_member_ids=tuple(group.pending),
        pending_sync_ids=tuple(group.pending_sync),
        join_deadline_ms=group.join_timer.at_ms,
        sync_deadline_ms=group.sync_timer.at_ms,
        offsets={topic: dict(by_partition) for topic, by_partition in offsets.items()},
    )


def _snapshot_member(member: Member, protocol_type: str | None) -> MemberSnapshot:
    parked_in = None
    if member.awaiting_join is not None:
        parked_in = "JoinGroup"
    elif member.awaiting_sync is not None:
        parked_in = "SyncGroup"
    return MemberSnapshot(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(name for name, _ in member.protocols),
        assignment=member.assignment,
        assigned=readable_assignment(protocol_type, member.assignment),
        parked_in=parked_in,
        is_new=member.is_new,
        last_seen_ms=member.last_seen_ms,
        session_deadline_ms=member.session.at_ms,
    )
