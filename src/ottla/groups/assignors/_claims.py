"""Which member owned each partition before a rebalance, where members may claim too much."""

from collections.abc import Sequence

from ottla.groups.assignors import Subscriber
from ottla.protocol.model import TopicPartition


def claimed_partitions(members: Sequence[Subscriber]) -> dict[TopicPartition, str | None]:
    """The owner of each owned partition: the member of the latest generation. None: two members claim it in that generation (KIP-341)."""
    claims: dict[TopicPartition, tuple[int, str | None]] = {}
    for member in members:
        for topic, numbers in member.owned.items():
            for partition in dict.fromkeys(TopicPartition(topic, number) for number in numbers):
                generation, _ = claims.get(partition, (-2, None))
                if member.generation > generation:
                    claims[partition] = member.generation, member.member_id
                elif member.generation == generation:
                    claims[partition] = generation, None
    return {partition: owner for partition, (_, owner) in claims.items()}
