"""Glances at a coordinator, one group at a time and at little cost: for whoever looks at 20,000 groups again and again (metrics).

A glance is a copy, as a view is (views.py); it holds counts where a view holds things. Nothing here changes anything.
"""

from typing import NamedTuple

from ottla.core.groups.coordinator import Coordinator
from ottla.core.groups.event_members import readable_assignment
from ottla.core.groups.records import OffsetValue
from ottla.core.groups.states import GroupState


class GroupGlance(NamedTuple):
    """One group: how it is, and how many of everything. `pending`: member ids that were handed out and have not joined yet.

    `offset_commits`: offsets that were committed since this coordinator began.
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


class MemberPlan(NamedTuple):
    """What one member of a stable group is to read."""

    member_id: str
    client_id: str
    client_host: str
    partitions: tuple[tuple[str, int], ...]


def group_ids(coordinator: Coordinator) -> list[str]:
    """The groups there are now."""
    return list(coordinator.registry.groups)


def glance(coordinator: Coordinator, group_id: str) -> GroupGlance | None:
    """One group; None when it is gone."""
    group = coordinator.registry.groups.get(group_id)
    if group is None:
        return None
    return GroupGlance(
        group_id=group_id,
        state=group.state.value,
        generation=group.generation,
        protocol_type=group.protocol_type or "",
        protocol=group.protocol or "",
        members=len(group.members),
        static_members=len(group.static_members),
        pending=len(group.pending),
        offset_commits=coordinator.registry.commit_counts.get(group_id, 0),
    )


def offsets_committed(coordinator: Coordinator) -> int:
    """How many offsets were committed since this coordinator began, over all its groups, those that are gone too."""
    return coordinator.registry.offsets_committed


def committed_offsets(coordinator: Coordinator, group_id: str) -> list[tuple[str, list[int], list[OffsetValue]]]:
    """What is committed, by topic: partitions, and the value of each. Two lists and no pairs: there may be very many."""
    by_topic = coordinator.registry.durable.offsets.get(group_id, {})
    return [(topic, list(by_partition), list(by_partition.values())) for topic, by_partition in by_topic.items()]


def plan(coordinator: Coordinator, group_id: str) -> tuple[MemberPlan, ...] | None:
    """Who reads what; None unless the group is Stable. Costs more than a glance: every member's assignment is read."""
    group = coordinator.registry.groups.get(group_id)
    if group is None or group.state is not GroupState.STABLE:
        return None
    return tuple(
        MemberPlan(
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
