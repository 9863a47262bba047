"""The uniform assignor of consumer groups: as even as possible, with few moves (Kafka: `UniformAssignor`). Racks are not looked at.

Where all members subscribe to the same topics, each gets its quota and keeps what it has of it. Otherwise topics are filled one after the
other, always the member with the fewest partitions first, and then evened out. Ties fall as in Kafka where its order does not depend on
hashes: by the order of the members, and of the topics in `partitions`.
"""

from bisect import insort
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber

ROUNDS_MAX: Final = 16
"""Rounds of evening out; each moves partitions only where that makes counts more even."""
NOBODY: Final = -1


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
        first = members[0].topics
        if all(member.topics is first or member.topics == first for member in members):
            return _by_quotas(members, {topic: partitions[topic] for topic in topics})
        return _Filling(members, {topic: partitions[topic] for topic in topics}).assign()


def _by_quotas(members: Sequence[Subscriber], partitions: Mapping[str, int]) -> Assignment:
    """Each member gets the same number of partitions, the first ones that may one more."""
    least, extras = divmod(sum(partitions.values()), len(members))
    is_owned = {topic: bytearray(count) for topic, count in partitions.items()}
    assignment: Assignment = {}
    too_many: list[tuple[str, int]] = []
    waiting: list[tuple[str, int]] = []
    for index, member in enumerate(members):
        has_extra = extras > 0
        quota = least + has_extra
        kept = assignment[member.member_id] = {}
        for topic, numbers in member.owned.items():
            flags = is_owned.get(topic)
            if flags is None:
                continue
            exist = sorted(numbers)
            if exist and exist[-1] >= len(flags):
                exist = [number for number in exist if number < len(flags)]
            for number in exist:
                flags[number] = True
            if len(exist) > quota:
                too_many += [(topic, number) for number in exist[quota:]]
                exist = exist[:quota]
            if exist:
                kept[topic] = exist
                quota -= len(exist)
        if quota > 0 and has_extra and len(members) - index > extras:
            # A later member may keep what would be the extra one.
            quota -= 1
            has_extra = False
        if quota > 0:
            waiting.append((member.member_id, quota))
        extras -= has_extra
    unassigned = [(topic, number) for topic, flags in is_owned.items() for number, flag in enumerate(flags) if not flag]
    unassigned += too_many
    at = 0
    for member_id, quota in waiting:
        of_member = assignment[member_id]
        for topic, number in unassigned[at : at + quota]:
            insort(of_member.setdefault(topic, []), number)
        at += quota
    assert at >= len(unassigned), "partitions were left unassigned"
    return assignment


class _Filling:
    """The assignment while topics are filled and evened out: members are numbers, `loads` their counts over all topics.

    `owners`: the owner of each partition, by topic.
    """

    def __init__(self, members: Sequence[Subscriber], partitions: Mapping[str, int]) -> None:
        self.members = members
        self.subscribers: dict[str, list[int]] = {topic: [] for topic in partitions}
        self.loads = [0] * len(members)
        self.owners = {topic: [NOBODY] * count for topic, count in partitions.items()}
        subscribe = {topic: subscribers.append for topic, subscribers in self.subscribers.items()}
        for at, member in enumerate(members):
            for topic in member.topics:
                if topic in subscribe:
                    subscribe[topic](at)
            for topic, numbers in member.owned.items():
                owners = self.owners[topic] if topic in member.topics and topic in partitions else []
                for number in numbers:
                    if number < len(owners) and owners[number] == NOBODY:
                        owners[number] = at
                        self.loads[at] += 1
        # Fewest partitions for each subscriber last: they leave the least room.
        self.order = sorted(
            partitions,
            key=lambda topic: (-partitions[topic] / len(self.subscribers[topic]), len(self.subscribers[topic])),
        )

    def assign(self) -> Assignment:
        """Fill every topic, then even out."""
        for topic in self.order:
            self._fill(topic)
        self._even_out_all([topic for topic in self.order if len(self.subscribers[topic]) > 1])
        assignment: list[dict[str, list[int]]] = [{} for _ in self.members]
        for topic, owners in self.owners.items():
            for number, at in enumerate(owners):
                of_member = assignment[at]
                if topic in of_member:
                    of_member[topic].append(number)
                else:
                    of_member[topic] = [number]
        return {member.member_id: assignment[at] for at, member in enumerate(self.members)}

    def _by_load(self, topic: str) -> list[int]:
        # They are in order already, which sorting keeps among equals.
        return sorted(self.subscribers[topic], key=self.loads.__getitem__)

    def _fill(self, topic: str) -> None:
        """Like water: the least loaded subscribers take turns, joined by others as their level rises."""
        owners = self.owners[topic]
        if NOBODY not in owners:
            return
        takers = self._takers(self._by_load(topic))
        for number, owner in enumerate(owners):
            if owner == NOBODY:
                at, _ = next(takers)
                owners[number] = at
                self.loads[at] += 1

    def _even_out_all(self, topics: Sequence[str]) -> None:
        """Even out one topic after the other, until none had a move since the last one that had."""
        last: str | None = None
        for _ in range(ROUNDS_MAX):
            for topic in topics:
                if topic == last:
                    return
                if self._even_out(topic) or last is None:
                    last = topic
                    if max(self.loads) - min(self.loads) <= 1:
                        return

    def _even_out(self, topic: str) -> int:
        """Move partitions of a topic from the most to the least loaded of its subscribers; returns how many."""
        ordered, loads, owners = self._by_load(topic), self.loads, self.owners[topic]
        if loads[ordered[-1]] - loads[ordered[0]] <= 1:
            return 0
        owned: dict[int, list[int]] = {}
        for number, at in enumerate(owners):
            owned.setdefault(at, []).append(number)
        moves = 0
        takers = self._takers(ordered)
        for giver, most in self._givers(ordered, owned):
            number = owned[giver].pop()
            taker, least = next(takers)
            if most - least <= 1:
                break
            owners[number] = taker
            loads[giver] -= 1
            loads[taker] += 1
            moves += 1
        return moves

    def _takers(self, ordered: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Who gets the next partition, with the level of those that take turns; each is expected to have got it afterwards."""
        loads, end, level = self.loads, 0, self.loads[ordered[0]]
        while True:
            while end < len(ordered) and loads[ordered[end]] == level:
                end += 1
            for at in range(end):
                yield ordered[at], level
            level += 1

    def _givers(self, ordered: list[int], owned: Mapping[int, Sequence[int]]) -> Iterator[tuple[int, int]]:
        """Who gives the next partition, with the level of those that take turns, which have some; the others go to the end of `ordered`."""
        loads, start, end, level = self.loads, len(ordered), len(ordered), 0
        while True:
            level = loads[ordered[start - 1]] if end <= start and start > 0 else level - 1
            while start > 0 and loads[ordered[start - 1]] == level:
                start -= 1
            if not end:
                return
            for place in range(end - 1, start - 1, -1):
                at = ordered[place]
                if owned.get(at):
                    yield at, level
                else:
                    end -= 1
                    ordered[place], ordered[end] = ordered[end], at


ASSIGNOR = UniformAssignor()
