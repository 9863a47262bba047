"""The assignments of groups as the metrics show them: the owner of each partition, counts by topic, members without partitions."""

from collections.abc import Iterable
from typing import NamedTuple

from ottla.broker.monitoring.group_snapshot import Owner, TopicRow
from ottla.groups.classic.states import GroupState
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.snapshots import GroupSummary, MemberAssignment


class GroupAssignment(NamedTuple):
    """The assignment of one generation."""

    generation: int
    owners: dict[tuple[str, int], Owner]
    topics: tuple[TopicRow, ...]
    empty_members: int


class GroupAssignments:
    """Caches assignments: each is read once a generation."""

    def __init__(self) -> None:
        self._known: dict[str, GroupAssignment] = {}

    def of(self, coordinator: GroupCoordinator, group: GroupSummary) -> GroupAssignment:
        """The assignment of a group. While it rebalances, no partition has an owner."""
        known = self._known.get(group.group_id)
        if group.state == GroupState.STABLE.value:
            if known is not None and known.generation == group.generation:
                return known
            members = coordinator.assignments(group.group_id)
            if members is not None:
                known = self._known[group.group_id] = _assignment(group.generation, members)
                return known
        self._known.pop(group.group_id, None)
        return GroupAssignment(group.generation, {}, (), group.members)

    def keep(self, group_ids: Iterable[str]) -> None:
        """Forget all groups but these."""
        self._known = {group_id: self._known[group_id] for group_id in group_ids if group_id in self._known}


def _assignment(generation: int, members: Iterable[MemberAssignment]) -> GroupAssignment:
    owners: dict[tuple[str, int], Owner] = {}
    topics: dict[str, list[int]] = {}
    empty_members = 0
    for member in members:
        owner = (member.member_id, member.client_id, member.client_host)
        owners.update(dict.fromkeys(member.partitions, owner))
        empty_members += not member.partitions
        for topic in {topic for topic, _ in member.partitions}:
            topics.setdefault(topic, [0, 0])[0] += 1
        for topic, _ in member.partitions:
            topics[topic][1] += 1
    return GroupAssignment(generation, owners, tuple(TopicRow(topic, *counts) for topic, counts in sorted(topics.items())), empty_members)
