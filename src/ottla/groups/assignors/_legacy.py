"""The assignors of Kafka's consumers that used ZooKeeper (until 2.0): each member is a stream thread `<consumer>-<number>`.

They are not among `assignors()`: groups of today's brokers cannot name them. For comparing old assignments, and for plans to leave them.
"""

from collections.abc import Iterable, Mapping, Sequence

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber
from ottla.groups.assignors.range import ASSIGNOR as RANGE
from ottla.protocol.model import TopicPartition
from ottla.text import java_hash, java_order


class LegacyRangeAssignor(Assignor):
    """Each topic by itself over its threads, in the order of their ids as text: "c-10" comes before "c-2"."""

    name = "legacy-range"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """Divide each topic as today's range assignor does, which has no instance ids and racks to consider here."""
        threads = [Subscriber(member_id=member.member_id, topics=member.topics) for member in members]
        return RANGE.assign(threads, partitions)


class LegacyRoundRobinAssignor(Assignor):
    """All partitions, in the order of a hash, in turn to all threads (0.8.2 to 0.11)."""

    name = "legacy-roundrobin"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """Deal out the partitions. Raises ValueError unless all threads subscribe to the same topics."""
        if len({member.topics for member in members}) > 1:
            raise ValueError(
                "legacy-roundrobin needs consumers that subscribe to the same topics, each with the same number of streams for all of them"
            )
        topics = members[0].topics & partitions.keys() if members else ()
        every = [TopicPartition(topic, number) for topic in sorted(topics) for number in range(partitions[topic])]
        return deal([member.member_id for member in members], sorted(every, key=lambda each: java_hash(f"[{each.topic},{each.partition}]")))


def deal(threads: Iterable[str], partitions: Iterable[TopicPartition]) -> Assignment:
    """The partitions, in the order given, in turn to the threads, in the order of their ids."""
    ordered = sorted(threads, key=java_order)
    assignment: Assignment = {thread: {} for thread in ordered}
    for at, (topic, number) in enumerate(partitions):
        assignment[ordered[at % len(ordered)]].setdefault(topic, []).append(number)
    return {thread: {topic: sorted(numbers) for topic, numbers in of.items()} for thread, of in assignment.items()}


LEGACY_ASSIGNORS = {each.name: each for each in (LegacyRangeAssignor(), LegacyRoundRobinAssignor())}
