"""The range assignor: each topic by itself, its partitions in order over its members in order (Kafka: `RangeAssignor`, without racks).

Members at the front get one partition more of every topic whose count does not divide evenly.
"""

from collections.abc import Mapping, Sequence

from ottla.core.assignors import Assignment, Assignor, Subscriber


class RangeAssignor(Assignor):
    """Consecutive partitions for each member."""

    name = "range"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
        """Divide each topic among its subscribers."""
        assignment: Assignment = {member.member_id: {} for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        for topic, count in sorted(partitions.items()):
            takers = [member for member in ordered if topic in member.topics]
            first = 0
            for at, taker in enumerate(takers):
                size = count // len(takers) + (at < count % len(takers))
                if size:
                    assignment[taker.member_id][topic] = list(range(first, first + size))
                first += size
        return assignment


ASSIGNOR = RangeAssignor()
