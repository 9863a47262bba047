"""The cooperative sticky assignor: the sticky assignment, in two rebalances (KIP-429; Kafka: `CooperativeStickyAssignor`).

A partition that changes its owner is left out of the first assignment: its owner revokes it and joins again, and the second gives it
to its new owner. All other partitions are read meanwhile.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber
from ottla.groups.assignors._owned import claimed_partitions, decode_generation, encode_generation
from ottla.groups.assignors.sticky import assign_sticky
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import NO_GENERATION, Partitions


class CooperativeStickyAssignor(Assignor):
    """Sticky, and only partitions that move stop."""

    name = "cooperative-sticky"
    is_cooperative = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """The sticky assignment without the partitions that another member may still read."""
        # Of a partition that two members claim, neither may be its owner before both have revoked it.
        owners = claimed_partitions(members)
        assignment = assign_sticky(members, partitions, owners)
        for member_id, mine in assignment.items():
            for topic, numbers in list(mine.items()):
                mine[topic] = [number for number in numbers if owners.get(TopicPartition(topic, number), member_id) == member_id]
                if not mine[topic]:
                    del mine[topic]
        return assignment

    def user_data(self, owned: Partitions | None, generation: int) -> bytes | None:
        """The generation, for leaders that read subscriptions of versions 0 and 1."""
        return encode_generation(NO_GENERATION if owned is None else generation)

    def with_user_data(self, member: Subscriber, user_data: bytes | None) -> Subscriber:
        """The generation of the user data, where the subscription has none (before version 2)."""
        return member if member.generation != NO_GENERATION else replace(member, generation=decode_generation(user_data))


ASSIGNOR = CooperativeStickyAssignor()
