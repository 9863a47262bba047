"""The round-robin assignor: all partitions of all topics in turn to the members in order (Kafka: `RoundRobinAssignor`)."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber


class RoundRobinAssignor(Assignor):
    """One partition for each member in turn; a member that does not subscribe to the topic is passed over."""

    name = "roundrobin"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """Deal out the partitions."""
        assignment: Assignment = {member.member_id: {} for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        turn = 0
        for topic, count in sorted(partitions.items()):
            takers = [at for at, member in enumerate(ordered) if topic in member.topics]
            if not takers or not count:
                continue
            first = bisect_left(takers, turn)
            for number in range(count):
                taker = takers[(first + number) % len(takers)]
                assignment[ordered[taker].member_id].setdefault(topic, []).append(number)
            turn = (takers[(first + count - 1) % len(takers)] + 1) % len(ordered)
        return assignment


ASSIGNOR = RoundRobinAssignor()
