"""One group as its coordinator has it now, with the lag: read in the brokers' loop, so all of it is of one moment."""

from collections.abc import Mapping, Set
from typing import NamedTuple

from ottla.broker.composition import Components
from ottla.broker.partitions.partitions import NotOpen
from ottla.coordinator.loop import CoordinatorLoop
from ottla.groups.coordinator import GroupCoordinator
from ottla.groups.snapshots import GroupSnapshot, MemberSnapshot
from ottla.protocol.model import TopicPartition


class GroupNow(NamedTuple):
    """`members` are those that have joined. `lag`: records after the committed offsets, of all partitions that have one, of all that a
    member owns or has owned, and of all topics that members subscribe to.

    Where nothing is committed, all records of the partition count. None: there is no such partition, or a log was not opened yet since
    the start, which it is soon.
    """

    state: str
    members: tuple[MemberSnapshot, ...]
    committed: Mapping[TopicPartition, int]
    lag: int | None


NO_GROUP = GroupNow("Dead", (), {}, None)


def group_now(components: Components, group_id: str, owned: Set[TopicPartition]) -> GroupNow:
    """The group, whose members have `owned` these partitions before; NO_GROUP where no coordinator has it."""
    loop = coordinator_of(components, group_id)
    if loop is None:
        return NO_GROUP
    (group,) = [each for each in loop.coordinator.snapshot().groups if each.group_id == group_id]
    committed = {
        TopicPartition(topic, number): value.offset for topic, offsets in group.offsets.items() for number, value in offsets.items()
    }
    return GroupNow(group.state, group.members, committed, _lag(components, group, committed, owned))


def coordinator_of(components: Components, group_id: str) -> CoordinatorLoop[GroupCoordinator] | None:
    """The coordinator that has the group."""
    loops = [loop for broker in components.coordinators.by_broker.values() for loop in broker.all()]
    return next((loop for loop in loops if group_id in loop.coordinator.state.groups), None)


def _lag(components: Components, group: GroupSnapshot, committed: Mapping[TopicPartition, int], owned: Set[TopicPartition]) -> int | None:
    partitions = owned | committed.keys()
    for member in group.members:  # those of a group that was loaded after a restart, which has no events of them
        partitions |= {TopicPartition(topic, number) for topic, numbers in member.assigned.items() for number in numbers}
    for name in group.subscribed_topics or ():
        topic = components.cluster_metadata.topics.get(name)
        partitions |= {TopicPartition(name, number) for number in range(len(topic.leaders) if topic else 0)}
    try:
        return sum(_behind(components, each, committed.get(each)) for each in partitions) if partitions else None
    except NotOpen:
        return None


def _behind(components: Components, partition: TopicPartition, committed: int | None) -> int:
    found = components.partitions.by_name(*partition)
    if found is None:  # its topic was deleted
        return 0
    start, end = found.log.log_start_offset, found.log.log_end_offset
    return max(0, end - (start if committed is None else max(start, committed)))
