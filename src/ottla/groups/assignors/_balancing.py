"""Who holds which partition while a sticky assignment is made, and the steps that make holdings even with few moves.

Members, partitions and groups of topics are numbers here. A group is all topics that the same members subscribe to: its partitions differ
only in who owned them before.

Counts are as even as they can be when no chain of moves leads from a member to one with two partitions fewer (an optimal semi-matching,
Harvey et al. 2003). Kafka's `AbstractStickyAssignor` tries single moves only, so its counts may be less even where subscriptions differ.
"""

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from heapq import heapify, heappop, heappush, heapreplace
from typing import Final, NamedTuple

from ottla.groups.assignors import Assignment, Subscriber
from ottla.protocol.model import TopicPartition

NONE: Final = -1


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """Topics with the same subscribers: these, and the partitions, both in order."""

    takers: tuple[int, ...]
    partitions: tuple[int, ...]


class Holdings:
    """An assignment in the making. A member's partitions of a group are *kept* (it owned them before) or *new* to it."""

    def __init__(self, groups: Sequence[TopicGroup], previous: Sequence[int], members: int) -> None:
        self.groups = groups
        self.previous = previous
        """The member that owned each partition and may go on owning it, or NONE."""
        self.owner = [NONE] * len(previous)
        self.load = [0] * members
        """How many partitions each member holds."""
        self.held: list[dict[int, tuple[list[int], list[int]]]] = [{} for _ in range(members)]
        """The partitions of each member by group: kept ones and new ones."""
        self.groups_of: list[list[int]] = [[] for _ in range(members)]
        """The groups that each member subscribes to."""
        self._group_of = [NONE] * len(previous)
        for number, group in enumerate(groups):
            for taker in group.takers:
                self.groups_of[taker].append(number)
            for partition in group.partitions:
                self._group_of[partition] = number

    def give(self, partition: int, member: int) -> None:
        """A partition without a holder gets one."""
        kept, new = self.held[member].setdefault(self._group_of[partition], ([], []))
        (kept if self.previous[partition] == member else new).append(partition)
        self.owner[partition] = member
        self.load[member] += 1

    def move(self, rich: int, poor: int, group: int) -> None:
        """Move one of the rich member's partitions of a group: one that the poor one owned before, another new one, the last kept one."""
        kept, new = self.held[rich][group]
        was_owned = next((at for at, each in enumerate(new) if self.previous[each] == poor), -1)
        self._hand_over(new.pop(was_owned) if new else kept.pop(), poor)

    def move_partition(self, partition: int, to: int) -> None:
        """Move one partition to another holder."""
        holder = self.owner[partition]
        kept, new = self.held[holder][self._group_of[partition]]
        (kept if self.previous[partition] == holder else new).remove(partition)
        self._hand_over(partition, to)

    def _hand_over(self, partition: int, to: int) -> None:
        """The rest of a move, once the partition is out of its holder's list."""
        holder, group = self.owner[partition], self._group_of[partition]
        if self.held[holder][group] == ([], []):
            del self.held[holder][group]
        self.load[holder] -= 1
        self.give(partition, to)


def kept_holdings(members: Sequence[Subscriber], names: Sequence[tuple[str, int]], owners: Mapping[TopicPartition, str | None]) -> Holdings:
    """Each partition of `names` with the member that owned it, if that still subscribes to the topic. `members` are in order."""
    numbers = {name: number for number, name in enumerate(names)}
    member_numbers = {member.member_id: number for number, member in enumerate(members)}
    previous = [NONE] * len(names)
    for partition, owner in owners.items():
        number = numbers.get(partition)
        if owner is not None and number is not None and partition.topic in members[member_numbers[owner]].topics:
            previous[number] = member_numbers[owner]
    holdings = Holdings(_topic_groups(members, names), previous, len(members))
    # The last of a member's kept partitions move first: the highest numbers, so that it keeps some of each topic.
    for number in sorted(range(len(names)), key=lambda number: (names[number][1], number)):
        if previous[number] != NONE:
            holdings.give(number, previous[number])
    return holdings


def _topic_groups(members: Sequence[Subscriber], names: Sequence[tuple[str, int]]) -> list[TopicGroup]:
    """The groups, those with the fewest subscribers first."""
    alike: dict[frozenset[str], list[int]] = {}
    for number, member in enumerate(members):
        alike.setdefault(member.topics, []).append(number)
    by_topic: dict[str, list[int]] = {}
    for number, (topic, _) in enumerate(names):
        by_topic.setdefault(topic, []).append(number)
    subscriptions = list(alike)
    topics_of: dict[tuple[int, ...], list[str]] = {}
    for topic in by_topic:
        subscribed = tuple(number for number, topics in enumerate(subscriptions) if topic in topics)
        topics_of.setdefault(subscribed, []).append(topic)
    groups = []
    for subscribed, topics in topics_of.items():
        takers = sorted(member for number in subscribed for member in alike[subscriptions[number]])
        groups.append(TopicGroup(tuple(takers), tuple(number for topic in topics for number in by_topic[topic])))
    return sorted(groups, key=lambda group: (len(group.takers), group.partitions))


def as_assignment(holdings: Holdings, members: Sequence[Subscriber], names: Sequence[tuple[str, int]]) -> Assignment:
    """The assignment by names; `names` are in order, by topic."""
    assignment: Assignment = {member.member_id: {} for member in members}
    shares: Mapping[int, dict[str, list[int]]] = {number: assignment[member.member_id] for number, member in enumerate(members)}
    for (topic, partition), owner in zip(names, holdings.owner, strict=True):
        if owner != NONE:
            shares[owner].setdefault(topic, []).append(partition)
    return assignment


def fill_up(holdings: Holdings) -> None:
    """Give each partition without a holder to its subscriber with the fewest; groups with few subscribers first."""
    for group in holdings.groups:
        unassigned = [each for each in group.partitions if holdings.owner[each] == NONE] if group.takers else ()
        if not unassigned:
            continue
        heap = [(holdings.load[taker], taker) for taker in group.takers]
        heapify(heap)
        for partition in unassigned:
            load, taker = heap[0]
            holdings.give(partition, taker)
            heapreplace(heap, (load + 1, taker))


def even_out(holdings: Holdings) -> None:
    """Move partitions to the member with the fewest from the one with the most that has one for it, while that is two more."""
    if max(holdings.load, default=0) < min(holdings.load, default=0) + 2:
        return
    richest = [_Richest(holdings, number) for number in range(len(holdings.groups))]
    poor = [(load, member) for member, load in enumerate(holdings.load) if holdings.groups_of[member]]
    heapify(poor)
    while poor:
        load, member = heappop(poor)
        if load != holdings.load[member]:
            heappush(poor, (holdings.load[member], member))
            continue
        choices = [found for group in holdings.groups_of[member] if (found := richest[group].top()) is not None]
        if not choices:
            continue
        most, _, rich, group = max(choices)
        if most < load + 2:
            continue
        holdings.move(rich, member, group)
        richest[group].add(member)
        heappush(poor, (load + 1, member))


class _Richest:
    """The holders of a group's partitions by load; an entry whose load has changed is corrected when it comes up."""

    def __init__(self, holdings: Holdings, group: int) -> None:
        self._holdings, self._group = holdings, group
        takers = holdings.groups[group].takers
        # Of several, the last one gives first, so that members at the front keep more.
        self._heap = [(-holdings.load[taker], -taker) for taker in takers if group in holdings.held[taker]]
        heapify(self._heap)

    def add(self, member: int) -> None:
        """A member holds one more partition of the group."""
        heappush(self._heap, (-self._holdings.load[member], -member))

    def top(self) -> tuple[int, bool, int, int] | None:
        """The load of the member with the most, whether something that it has of the group is new to it, the member, the group."""
        while self._heap:
            load, member = -self._heap[0][0], -self._heap[0][1]
            piles = self._holdings.held[member].get(self._group)
            if piles is None:
                heappop(self._heap)
            elif load != self._holdings.load[member]:
                heapreplace(self._heap, (-self._holdings.load[member], -member))
            else:
                return load, bool(piles[1]), member, self._group
        return None


def even_out_by_chains(holdings: Holdings) -> None:
    """Move partitions along chains of members, each giving one to the next, from a member to one that has two fewer.

    Members are tried in descending order of their loads. What a search without success has reached stays settled: no later one finds
    a member there that has two fewer.
    """
    least = min(holdings.load, default=0)
    sources = [(-load, member) for member, load in enumerate(holdings.load) if load >= least + 2]
    heapify(sources)
    settled: set[int] = set()
    while sources:
        load, source = heappop(sources)
        if source in settled or -load != holdings.load[source]:
            continue
        reached = _reachable(holdings, source, settled)
        sink = min(reached, key=lambda member: (holdings.load[member], reached[member].moved, member))
        if holdings.load[sink] > holdings.load[source] - 2:
            settled.update(reached)
            continue
        _move_along(holdings, reached, source, sink)
        for changed in (source, sink):
            heappush(sources, (-holdings.load[changed], changed))


def give_back(holdings: Holdings) -> None:
    """Give partitions back to the members that owned them before, where the counts stay as even and no other kept one moves for it."""
    chains = _Chains(holdings)
    changed = True
    while changed:
        changed = False
        for partition, former in enumerate(holdings.previous):
            if former not in (NONE, holdings.owner[partition]) and _give_back(holdings, chains, partition, former):
                chains = _Chains(holdings)
                changed = True


def _give_back(holdings: Holdings, chains: "_Chains", partition: int, former: int) -> bool:
    """Whether it could be: alone, or with a chain of new partitions from its former owner, or with one to its holder."""
    holder, load = holdings.owner[partition], holdings.load
    if load[former] == load[holder] - 1:
        holdings.move_partition(partition, former)
        return True
    takers = chains.takers(former) if former in chains.givers_by_load.get(load[former], ()) else {}
    sink = holder if holder in takers else min((each for each in takers if load[each] == load[holder] - 1), default=NONE)
    if sink != NONE:
        holdings.move_partition(partition, former)
        _move_along(holdings, takers, former, sink)
        return True
    sources = chains.givers_by_load.get(load[former] + 1, set())
    givers = chains.givers(holder) if sources else {}
    source = min(sources & givers.keys(), default=NONE)
    if source == NONE:
        return False
    holdings.move_partition(partition, former)
    while source != holder:
        taker, group = givers[source]
        holdings.move(source, taker, group)
        source = taker
    return True


class _Chains:
    """Chains of moves in which each member gives a partition that is new to it; valid until something moves."""

    def __init__(self, holdings: Holdings) -> None:
        self._holdings = holdings
        self.givers_by_load: dict[int, set[int]] = {}
        """Members that hold something new to them, with which a chain can begin, by their loads."""
        for member, piles in enumerate(holdings.held):
            if any(new for _, new in piles.values()):
                self.givers_by_load.setdefault(holdings.load[member], set()).add(member)
        self._takers: dict[int, dict[int, _Step]] = {}
        self._givers: dict[int, dict[int, tuple[int, int]]] = {}

    def takers(self, source: int) -> dict[int, "_Step"]:
        """Every member where a chain from `source` can end."""
        if source not in self._takers:
            self._takers[source] = _reachable(self._holdings, source, frozenset(), only_new=True)
        return self._takers[source]

    def givers(self, sink: int) -> dict[int, tuple[int, int]]:
        """Every member from which a chain can lead to `sink`: the member that it gives to, and the group."""
        if sink not in self._givers:
            self._givers[sink] = self._find_givers(sink)
        return self._givers[sink]

    def _find_givers(self, sink: int) -> dict[int, tuple[int, int]]:
        found = {sink: (NONE, NONE)}
        groups: set[int] = set()
        queue = [sink]
        for taker in queue:  # grows meanwhile
            for group in self._holdings.groups_of[taker]:
                if group in groups:
                    continue
                groups.add(group)
                for giver in self._holdings.groups[group].takers:
                    if giver not in found and self._holdings.held[giver].get(group, ((), ()))[1]:
                        found[giver] = taker, group
                        queue.append(giver)
        return found


class _Step(NamedTuple):
    """How a search reached a member: a partition of `group` would move to it from `giver`."""

    giver: int
    group: int
    moved: int
    """How many partitions would leave members that owned them before, on the whole way."""


def _reachable(holdings: Holdings, source: int, settled: AbstractSet[int], *, only_new: bool = False) -> dict[int, _Step]:
    """Every member where a chain of moves from `source` can end, each with its last step in a chain that moves the fewest kept partitions.

    `settled` members are left out. `only_new`: chains that move no kept partition.
    """
    reached = {source: _Step(NONE, NONE, 0)}
    groups: set[int] = set()

    def reach(givers: list[int], found: list[int], moved: int, *, by_new: bool) -> None:
        for giver in givers:  # may grow meanwhile
            for group, (_, new) in holdings.held[giver].items():
                if group in groups or (by_new and not new):
                    continue
                groups.add(group)
                for taker in holdings.groups[group].takers:
                    if taker not in reached and taker not in settled:
                        reached[taker] = _Step(giver, group, moved)
                        found.append(taker)

    level, moved = [source], 0
    while level:
        reach(level, level, moved, by_new=True)
        following: list[int] = []
        if not only_new:
            moved += 1
            reach(level, following, moved, by_new=False)
        level = following
    return reached


def _move_along(holdings: Holdings, reached: dict[int, _Step], source: int, sink: int) -> None:
    steps = []
    while sink != source:
        steps.append((reached[sink], sink))
        sink = reached[sink].giver
    for step, taker in reversed(steps):
        holdings.move(step.giver, taker, step.group)
