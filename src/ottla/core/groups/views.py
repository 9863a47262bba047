"""Frozen pictures of a coordinator for those who only look: console, metrics, oracles, diagnosis (law 8).

A view is a copy: whoever holds one sees the past, and can change nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.core.groups.classic_group import ClassicGroup, Member
from ottla.core.groups.durable import OffsetsByTopic
from ottla.core.groups.event_members import readable_assignment
from ottla.core.groups.records import GroupMetadataValue, OffsetValue
from ottla.core.groups.step import Registry


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member. `waits_in` is "JoinGroup", "SyncGroup" or None; `session_deadline_ms` None while nothing runs out."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[str, ...]
    assignment: bytes
    assigned: Mapping[str, tuple[int, ...]]
    waits_in: str | None
    is_new: bool
    last_seen_ms: int
    session_deadline_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group; deadlines are None while they do not run.

    `registered` is what the log knows of it, `offsets` maps topic and partition to what is committed.
    """

    group_id: str
    state: str
    state_since_ms: int
    generation: int
    registered: GroupMetadataValue | None
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    subscribed_topics: frozenset[str] | None
    members: tuple[MemberView, ...]
    pending_member_ids: tuple[str, ...]
    pending_sync_ids: tuple[str, ...]
    join_deadline_ms: int | None
    sync_deadline_ms: int | None
    offsets: Mapping[str, Mapping[int, OffsetValue]]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsView:
    """Everything that one coordinator serves."""

    partition: int
    node_id: int
    status: str
    groups: tuple[GroupView, ...]


def view_groups(registry: Registry, *, partition: int, node_id: int, status: str) -> GroupsView:
    """A picture of all groups of one coordinator."""
    durable = registry.durable
    groups = tuple(
        _view_group(
            group,
            offsets=durable.offsets.get(group.group_id, {}),
            registered=durable.registrations.get(group.group_id),
        )
        for group in registry.groups.values()
    )
    return GroupsView(partition=partition, node_id=node_id, status=status, groups=groups)


def _view_group(group: ClassicGroup, *, offsets: OffsetsByTopic, registered: GroupMetadataValue | None) -> GroupView:
    return GroupView(
        group_id=group.group_id,
        state=group.state.value,
        state_since_ms=group.state_since_ms,
        generation=group.generation,
        registered=registered,
        protocol_type=group.protocol_type,
        protocol=group.protocol,
        leader=group.leader,
        subscribed_topics=group.subscribed_topics,
        members=tuple(_view_member(member, group.protocol_type) for member in group.members.values()),
        pending_member_ids=tuple(group.pending),
        pending_sync_ids=tuple(group.pending_sync),
        join_deadline_ms=group.join_timer.at_ms,
        sync_deadline_ms=group.sync_timer.at_ms,
        offsets={topic: dict(by_partition) for topic, by_partition in offsets.items()},
    )


def _view_member(member: Member, protocol_type: str | None) -> MemberView:
    waits_in = None
    if member.awaiting_join is not None:
        waits_in = "JoinGroup"
    elif member.awaiting_sync is not None:
        waits_in = "SyncGroup"
    return MemberView(
        member_id=member.member_id,
        instance_id=member.instance_id,
        client_id=member.client_id,
        client_host=member.client_host,
        session_timeout_ms=member.session_timeout_ms,
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        protocols=tuple(name for name, _ in member.protocols),
        assignment=member.assignment,
        assigned=readable_assignment(protocol_type, member.assignment),
        waits_in=waits_in,
        is_new=member.is_new,
        last_seen_ms=member.last_seen_ms,
        session_deadline_ms=member.session.at_ms,
    )
