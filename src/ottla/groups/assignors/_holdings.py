"""Who holds which partition while a sticky assignment is made.

Members, partitions and groups of topics are numbers here. A group is all topics that the same members subscribe to: its partitions differ
only in who owned them before.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from ottla.groups.assignors import Assignment, Subscriber
from ottla.protocol.model import TopicPartition

NONE: Final = -1


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics with the same subscribers: these, and the partitions, both in order."""

    takers: tuple[int, ...]
    partitions: tuple[int, ...]


class Holdings:
    """An assignment in the making. A member's partitions of a group are *kept* (it owned them before) or *new* to it."""

    def __init__(self, groups: Sequence[TopicGroup], previous: Sequence[int], members: int) -> None:
        self.groups = groups
        self.previous = previous
        """The member that owned each partition and may go on owning it, or NONE."""
        self.owner = [NONE] * len(previous)
        self.load = [0] * members
        """How many partitions each member holds."""
        self.held: list[dict[int, tuple[list[int], list[int]]]] = [{} for _ in range(members)]
        """The partitions of each member by group: kept ones and new ones."""
        self.groups_of: list[list[int]] = [[] for _ in range(members)]
        """The groups that each member subscribes to."""
        self._group_of = [NONE] * len(previous)
        for number, group in enumerate(groups):
            for taker in group.takers:
                self.groups_of[taker].append(number)
            for partition in group.partitions:
                self._group_of[partition] = number

    def give(self, partition: int, member: int) -> None:
        """A partition without a holder gets one."""
        kept, new = self.held[member].setdefault(self._group_of[partition], ([], []))
        (kept if self.previous[partition] == member else new).append(partition)
        self.owner[partition] = member
        self.load[member] += 1

    def move(self, rich: int, poor: int, group: int) -> None:
        """Move one of the rich member's partitions of a group: one that the poor one owned before, another new one, the last kept one."""
        kept, new = self.held[rich][group]
        was_owned = next((at for at, each in enumerate(new) if self.previous[each] == poor), -1)
        self._hand_over(new.pop(was_owned) if new else kept.pop(), poor)

    def move_partition(self, partition: int, to: int) -> None:
        """Move one partition to another holder."""
        holder = self.owner[partition]
        kept, new = self.held[holder][self._group_of[partition]]
        (kept if self.previous[partition] == holder else new).remove(partition)
        self._hand_over(partition, to)

    def _hand_over(self, partition: int, to: int) -> None:
        """The rest of a move, once the partition is out of its holder's list."""
        holder, group = self.owner[partition], self._group_of[partition]
        if self.held[holder][group] == ([], []):
            del self.held[holder][group]
        self.load[holder] -= 1
        self.give(partition, to)


def kept_holdings(members: Sequence[Subscriber], names: Sequence[tuple[str, int]], owners: Mapping[TopicPartition, str | None]) -> Holdings:
    """Each partition of `names` with the member that owned it, if that still subscribes to the topic. `members` are in order."""
    numbers = {name: number for number, name in enumerate(names)}
    member_numbers = {member.member_id: number for number, member in enumerate(members)}
    previous = [NONE] * len(names)
    for partition, owner in owners.items():
        number = numbers.get(partition)
        if owner is not None and number is not None and partition.topic in members[member_numbers[owner]].topics:
            previous[number] = member_numbers[owner]
    holdings = Holdings(_topic_groups(members, names), previous, len(members))
    # The last of a member's kept partitions move first: the highest numbers, so that it keeps some of each topic.
    for number in sorted(range(len(names)), key=lambda number: (names[number][1], number)):
        if previous[number] != NONE:
            holdings.give(number, previous[number])
    return holdings


def _topic_groups(members: Sequence[Subscriber], names: Sequence[tuple[str, int]]) -> list[TopicGroup]:
    """The groups, those with the fewest subscribers first."""
    alike: dict[frozenset[str], list[int]] = {}
    for number, member in enumerate(members):
        alike.setdefault(member.topics, []).append(number)
    by_topic: dict[str, list[int]] = {}
    for number, (topic, _) in enumerate(names):
        by_topic.setdefault(topic, []).append(number)
    subscriptions = list(alike)
    topics_of: dict[tuple[int, ...], list[str]] = {}
    for topic in by_topic:
        subscribed = tuple(number for number, topics in enumerate(subscriptions) if topic in topics)
        topics_of.setdefault(subscribed, []).append(topic)
    groups = []
    for subscribed, topics in topics_of.items():
        takers = sorted(member for number in subscribed for member in alike[subscriptions[number]])
        groups.append(TopicGroup(tuple(takers), tuple(number for topic in topics for number in by_topic[topic])))
    return sorted(groups, key=lambda group: (len(group.takers), group.partitions))


def as_assignment(holdings: Holdings, members: Sequence[Subscriber], names: Sequence[tuple[str, int]]) -> Assignment:
    """The assignment by names; `names` are in order, by topic."""
    assignment: Assignment = {member.member_id: {} for member in members}
    shares: Mapping[int, dict[str, list[int]]] = {number: assignment[member.member_id] for number, member in enumerate(members)}
    for (topic, partition), owner in zip(names, holdings.owner, strict=True):
        if owner != NONE:
            shares[owner].setdefault(topic, []).append(partition)
    return assignment
