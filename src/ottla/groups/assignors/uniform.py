"""The uniform assignor of consumer groups: as even as possible, with few moves (Kafka: `UniformAssignor`). Racks are not looked at.

Where all members subscribe to the same topics, each gets its quota and keeps what it has of it. Otherwise topics are filled one after the
other, always the member with the fewest partitions first, and then evened out. Ties fall as in Kafka where its order does not depend on
hashes: by the order of the members, and of the topics in `partitions`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber

ROUNDS_MAX: Final = 16
"""Rounds of evening out; each moves partitions only where that makes counts more even."""


class UniformAssignor(Assignor):
    """Even counts over all topics."""

    name = "uniform"
    for_leaders = False
    for_coordinator = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """Assign by quotas, or topic by topic where subscriptions differ."""
        if not members:
            return {}
        topics = [topic for topic in partitions if any(topic in member.topics for member in members)]
        if all(member.topics == members[0].topics for member in members):
            return _by_quotas(members, {topic: partitions[topic] for topic in topics})
        return _Filling(members, {topic: partitions[topic] for topic in topics}).assign()


def _by_quotas(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """Each member gets the same number of partitions, the first ones that may one more."""
    least, extras = divmod(sum(partitions.values()), len(members))
    owned = {(topic, number) for member in members for topic, numbers in member.owned.items() for number in numbers}
    unassigned = [(topic, number) for topic, count in partitions.items() for number in range(count) if (topic, number) not in owned]
    assignment: Assignment = {member.member_id: {} for member in members}
    waiting: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        has_extra = extras > 0
        quota = least + has_extra
        kept = assignment[member.member_id]
        for topic, numbers in member.owned.items():
            if topic not in partitions:
                continue
            exist = [number for number in sorted(numbers) if number < partitions[topic]]
            if exist[:quota]:
                kept[topic] = exist[:quota]
            unassigned += [(topic, number) for number in exist[quota:]]
            quota -= len(exist[:quota])
        if quota > 0 and has_extra and len(members) - index > extras:
            # A later member may keep what would be the extra one.
            quota -= 1
            has_extra = False
        if quota > 0:
            waiting.append((member.member_id, quota))
        extras -= has_extra
    at = 0
    for member_id, quota in waiting:
        for topic, number in unassigned[at : at + quota]:
            assignment[member_id].setdefault(topic, []).append(number)
        at += quota
    assert at >= len(unassigned), "partitions were left unassigned"
    return _sorted(assignment)


class _Filling:
    """The assignment while topics are filled and evened out: members are numbers, `loads` their counts over all topics."""

    def __init__(self, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> None:
        self.members = members
        self.subscribers = {topic: [at for at, member in enumerate(members) if topic in member.topics] for topic in partitions}
        self.loads = [0] * len(members)
        self.owned: list[dict[str, list[int]]] = [{} for _ in members]
        self.unassigned = {topic: set(range(count)) for topic, count in partitions.items()}
        # Fewest partitions for each subscriber last: they leave the least room.
        self.order = sorted(
            partitions,
            key=lambda topic: (-partitions[topic] / len(self.subscribers[topic]), len(self.subscribers[topic])),
        )
        for at, member in enumerate(members):
            for topic, numbers in member.owned.items():
                if topic in member.topics and topic in partitions:
                    for number in sorted(numbers):
                        if number in self.unassigned[topic]:
                            self.unassigned[topic].remove(number)
                            self._give(at, topic, number)

    def assign(self) -> Assignment:
        """Fill every topic, then even out."""
        for topic in self.order:
            self._fill(topic)
        for _ in range(ROUNDS_MAX):
            if not sum([self._even_out(topic) for topic in self.order if len(self.subscribers[topic]) > 1]):
                break
        return _sorted({member.member_id: self.owned[at] for at, member in enumerate(self.members)})

    def _give(self, at: int, topic: str, number: int) -> None:
        self.owned[at].setdefault(topic, []).append(number)
        self.loads[at] += 1

    def _fill(self, topic: str) -> None:
        """Like water: the least loaded subscribers take turns, joined by others as their level rises."""
        ordered = sorted(self.subscribers[topic], key=lambda at: (self.loads[at], at))
        numbers = sorted(self.unassigned[topic])
        level, taking, given = self.loads[ordered[0]], 0, 0
        while given < len(numbers):
            while taking < len(ordered) and self.loads[ordered[taking]] <= level:
                taking += 1
            for at in ordered[:taking]:
                if given == len(numbers):
                    break
                self._give(at, topic, numbers[given])
                given += 1
            level += 1

    def _even_out(self, topic: str) -> int:
        """Move partitions of a topic from the most to the least loaded of its subscribers; returns how many."""
        ordered = sorted(self.subscribers[topic], key=lambda at: (self.loads[at], at))
        moves = 0
        while True:
            givers = [at for at in ordered if self.owned[at].get(topic)]
            if not givers:
                return moves
            giver = max(givers, key=lambda at: (self.loads[at], at))
            taker = min(ordered, key=lambda at: (self.loads[at], at))
            if self.loads[giver] - self.loads[taker] <= 1:
                return moves
            number = max(self.owned[giver][topic])
            self.owned[giver][topic].remove(number)
            if not self.owned[giver][topic]:
                del self.owned[giver][topic]
            self.loads[giver] -= 1
            self._give(taker, topic, number)
            moves += 1


def _sorted(assignment: Mapping[str, Mapping[str, Sequence[int]]]) -> Assignment:
    return {member_id: {topic: sorted(numbers) for topic, numbers in of.items()} for member_id, of in assignment.items()}


ASSIGNOR = UniformAssignor()
