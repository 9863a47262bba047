"""The round-robin assignor: all partitions of all topics in turn to the members in order (Kafka: `RoundRobinAssignor`)."""

from collections.abc import Mapping, Sequence

from ottla.core.assignors import Assignment, Assignor, Subscriber


class RoundRobinAssignor(Assignor):
    """One partition for each member in turn; a member that does not subscribe to the topic is passed over."""

    name = "roundrobin"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
        """Deal out the partitions."""
        assignment: Assignment = {member.member_id: {} for member in members}
        ordered = sorted(members, key=lambda member: member.order)
        subscribed = {topic for member in ordered for topic in member.topics}
        turn = 0
        for topic in sorted(subscribed & partitions.keys()):
            for partition in range(partitions[topic]):
                while topic not in ordered[turn % len(ordered)].topics:
                    turn += 1
                assignment[ordered[turn % len(ordered)].member_id].setdefault(topic, []).append(partition)
                turn += 1
        return assignment


ASSIGNOR = RoundRobinAssignor()
