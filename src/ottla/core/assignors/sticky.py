"""The sticky assignor: as even as subscriptions allow, with as few moves as that takes (Kafka: `StickyAssignor`).

Members keep what they own; what has no owner goes to the members with the fewest partitions; then partitions move from the members with the
most to those with the fewest until no move makes the counts more even. Each partition moves at most once. Kafka's own may choose
other partitions to move, not more of them.
"""

from collections.abc import Mapping, Sequence

from ottla.core.assignors import Assignment, Assignor, Subscriber
from ottla.core.model import TopicPartition


class StickyAssignor(Assignor):
    """Keeps partitions where they are."""

    name = "sticky"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
        """Keep, fill up, even out."""
        ordered = sorted(members, key=lambda member: member.order)
        topics = {member.member_id: member.topics for member in ordered}
        held: dict[str, set[TopicPartition]] = {member.member_id: set() for member in ordered}
        kept = set()
        for partition, owner in claimed_partitions(ordered).items():
            if partition.topic in topics[owner] and partition.partition < partitions.get(partition.topic, 0):
                held[owner].add(partition)
                kept.add(partition)
        _fill_up(held, topics, partitions, kept)
        _even_out(held, topics)
        return {member_id: _by_topic(mine) for member_id, mine in held.items()}


def claimed_partitions(members: Sequence[Subscriber]) -> dict[TopicPartition, str]:
    """The owner of each owned partition: the member of the latest generation. Two claims of one generation cancel each other (KIP-341)."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        for topic, numbers in member.owned.items():
            for partition in map(TopicPartition, [topic] * len(numbers), numbers):
                generation, _ = claims.get(partition, (-2, None))
                if member.generation > generation:
                    claims[partition] = member.generation, member.member_id
                elif member.generation == generation:
                    claims[partition] = generation, None
    return {partition: owner for partition, (_, owner) in claims.items() if owner is not None}


Held = dict[str, set[TopicPartition]]
Topics = Mapping[str, frozenset[str]]


def _fill_up(held: Held, topics: Topics, partitions: Mapping[str, int], kept: set[TopicPartition]) -> None:
    """Give each partition without an owner to its subscriber with the fewest; topics with few subscribers first."""
    takers = {topic: [member_id for member_id in held if topic in topics[member_id]] for topic in partitions}
    for topic in sorted(partitions, key=lambda topic: (len(takers[topic]), topic)):
        for partition in range(partitions[topic] if takers[topic] else 0):
            each = TopicPartition(topic, partition)
            if each not in kept:
                held[min(takers[topic], key=lambda member_id: len(held[member_id]))].add(each)


def _even_out(held: Held, topics: Topics) -> None:
    while (move := _next_move(held, topics)) is not None:
        rich, poor, partition = move
        held[rich].remove(partition)
        held[poor].add(partition)


def _next_move(held: Held, topics: Topics) -> tuple[str, str, TopicPartition] | None:
    """A move to the member with the fewest from the one with the most that has two more and a partition to give."""
    by_count = sorted(held, key=lambda member_id: len(held[member_id]))
    for poor in by_count:
        for rich in reversed(by_count):
            if len(held[rich]) < len(held[poor]) + 2:
                break
            movable = [partition for partition in held[rich] if partition.topic in topics[poor]]
            if movable:
                return rich, poor, max(movable)
    return None


def _by_topic(partitions: set[TopicPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return by_topic


ASSIGNOR = StickyAssignor()
