from collections.abc import Mapping, Sequence

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber


class ByRegion(Assignor):
    """Partition n of every topic goes to the member whose rack comes n-th."""

    name = "by-region"

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        ordered = sorted(members, key=lambda member: member.rack or "")
        assignment: Assignment = {member.member_id: {} for member in members}
        for topic, count in sorted(partitions.items()):
            takers = [member for member in ordered if topic in member.topics]
            for number in range(count if takers else 0):
                taker = takers[number % len(takers)]
                assignment[taker.member_id].setdefault(topic, []).append(number)
        return assignment
