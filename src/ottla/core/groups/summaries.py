"""Summaries of groups: snapshots with counts in place of members and offsets, cheap enough for metrics of 20,000 groups."""

from typing import NamedTuple

from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.event_members import readable_assignment
from ottla.core.groups.log.records import OffsetValue


class GroupSummary(NamedTuple):
    """One group. `pending` counts the member ids that were handed out and have not joined yet.

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


class MemberAssignment(NamedTuple):
    """The partitions that are assigned to one member of a stable group."""

    member_id: str
    client_id: str
    client_host: str
    partitions: tuple[tuple[str, int], ...]


def group_ids(coordinator: Coordinator) -> list[str]:
    """The ids of all groups."""
    return list(coordinator.state.groups)


def summarize_group(coordinator: Coordinator, group_id: str) -> GroupSummary | None:
    """The summary of one group; None if it does not exist."""
    group = coordinator.state.groups.get(group_id)
    if not isinstance(group, ClassicGroup):
        return None
    return GroupSummary(
        group_id=group_id,
        state=group.state.value,
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol or "",
        members=len(group.members),
        static_members=len(group.static_members),
        pending=len(group.pending),
        offset_commits=coordinator.state.commit_counts.get(group_id, 0),
    )


def offsets_committed(coordinator: Coordinator) -> int:
    """How many offsets were committed since this coordinator started, in all groups, removed ones included."""
    return coordinator.state.offsets_committed


def committed_offsets(coordinator: Coordinator, group_id: str) -> list[tuple[str, list[int], list[OffsetValue]]]:
    """Committed offsets by topic: the partitions, and the value of each. Two lists, not pairs, since there may be many."""
    by_topic = coordinator.state.replayed.offsets.get(group_id, {})
    return [(topic, list(by_partition), list(by_partition.values())) for topic, by_partition in by_topic.items()]


def assignments(coordinator: Coordinator, group_id: str) -> tuple[MemberAssignment, ...] | None:
    """The assignments of all members; None unless the group is Stable. Decodes every assignment, so it costs more than a summary."""
    group = coordinator.state.groups.get(group_id)
    if not isinstance(group, ClassicGroup) or group.state is not GroupState.STABLE:
        return None
    return tuple(
        MemberAssignment(
            member_id=member.member_id,
            client_id=member.client_id,
            client_host=member.client_host,
            partitions=tuple(
                (topic, partition)
                for topic, partitions in readable_assignment(group.protocol_type, member.assignment).items()
                for partition in partitions
            ),
        )
        for member in group.members.values()
    )
