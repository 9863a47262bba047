"""The cooperative sticky assignor: the sticky assignment, in two rebalances (KIP-429; Kafka: `CooperativeStickyAssignor`).

A partition that changes its owner is left out of the first assignment: its owner revokes it and joins again, and the second gives it
to its new owner. All other partitions are read meanwhile.
"""

from collections.abc import Mapping, Sequence

from ottla.core.assignors import Assignment, Assignor, Subscriber
from ottla.core.assignors.sticky import ASSIGNOR as STICKY
from ottla.core.assignors.sticky import claimed_partitions
from ottla.core.model import TopicPartition


class CooperativeStickyAssignor(Assignor):
    """Sticky, and only partitions that move stop."""

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
        """The sticky assignment without the partitions that another member still owns."""
        owners = claimed_partitions(members)
        target = STICKY.assign(members, partitions)
        return {member_id: _without_others(member_id, mine, owners) for member_id, mine in target.items()}


def _without_others(member_id: str, mine: Mapping[str, list[int]], owners: Mapping[TopicPartition, str]) -> dict[str, list[int]]:
    kept = {
        topic: [each for each in numbers if owners.get(TopicPartition(topic, each), member_id) == member_id]
        for topic, numbers in mine.items()
    }
    return {topic: numbers for topic, numbers in kept.items() if numbers}


ASSIGNOR = CooperativeStickyAssignor()
