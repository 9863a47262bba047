"""The range assignor: each topic by itself, its partitions in order over its members in order (Kafka: `RangeAssignor`).

Members at the front get one partition more of every topic whose count does not divide evenly. Where racks of members and of replicas are
known, members get partitions with a replica in their rack first, as many as without racks (KIP-881); topics with the same subscribers and
the same count are divided alike, so that a member has the same partitions of each.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber


class RangeAssignor(Assignor):
    """Consecutive partitions for each member."""

    name = "range"
    for_coordinator = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        """Divide each topic among its subscribers."""
        ordered = sorted(members, key=lambda member: member.order)
        shares = []
        for topic, count in sorted(partitions.items()):
            takers = [member for member in ordered if topic in member.topics]
            if takers and count:
                shares.append(_Share(topic, count, takers, racks.get(topic, ())))
        if any(share.needs_racks for share in shares):
            _match_racks(shares)
        assignment: Assignment = {member.member_id: {} for member in members}
        for share in shares:
            share.take_ranges()
            for taker, numbers in zip(share.takers, share.taken, strict=True):
                if numbers:
                    assignment[taker.member_id][share.topic] = sorted(numbers)
        return assignment


class _Share:
    """One topic while it is divided: what each of its takers has so far, and may still take."""

    def __init__(self, topic: str, count: int, takers: list[Subscriber], racks: Sequence[frozenset[str]]) -> None:
        self.topic, self.takers = topic, takers
        self.taken: list[list[int]] = [[] for _ in takers]
        self.is_free = [True] * count
        self._left = count
        self._least, self._extras = divmod(count, len(takers))
        known = {taker.rack for taker in takers if taker.rack}
        # Kafka does not look at replicas when no member has a rack.
        self.racks = [racks[number] if known and number < len(racks) else frozenset[str]() for number in range(count)]
        of_all = frozenset[str]().union(*self.racks)
        self.needs_racks = bool(known & of_all) and any(each != of_all for each in self.racks)
        self.has_racks = bool(known)

    @property
    def alike(self) -> tuple[tuple[str, ...], int]:
        """Equal for topics that are divided together."""
        return tuple(taker.member_id for taker in self.takers), len(self.racks) if self.has_racks else 0

    def left_for(self, taker: int) -> int:
        """How many more a taker may get."""
        return max(0, self._least + (self._extras > 0) - len(self.taken[taker]))

    def take(self, taker: int, number: int) -> None:
        """A partition goes to a taker."""
        self.taken[taker].append(number)
        self.is_free[number] = False
        self._left -= 1
        if len(self.taken[taker]) == self._least + 1:
            self._extras -= 1

    def take_ranges(self, *, with_racks: bool = False) -> None:
        """Each taker in order gets free partitions in order, as many as it may; `with_racks`: only those with a replica in its rack."""
        by_rack: dict[str, Iterator[int]] = {}
        for at, taker in enumerate(self.takers):
            if not self._left:
                break
            rack = (taker.rack or "") if with_racks else ""
            candidates = by_rack.setdefault(rack, self._in_rack(rack))
            for number in islice(candidates, self.left_for(at)):
                self.take(at, number)

    def _in_rack(self, rack: str) -> Iterator[int]:
        """Partitions with a replica in a rack ("": all), those that are free when they come up."""
        return (number for number, racks in enumerate(self.racks) if self.is_free[number] and (not rack or rack in racks))


def _match_racks(shares: list[_Share]) -> None:
    """Assign what has a replica in its taker's rack."""
    together: dict[tuple[tuple[str, ...], int], list[_Share]] = {}
    for share in shares:
        together.setdefault(share.alike, []).append(share)
    for alike in together.values():
        if len(alike) > 1:
            _take_together(alike)
        elif alike[0].needs_racks:
            alike[0].take_ranges(with_racks=True)


def _take_together(shares: list[_Share]) -> None:
    """Each partition number of all the topics goes to the first taker whose rack has a replica of each; the shares stay alike."""
    first = shares[0]
    waiting: dict[str, list[int]] = {}
    for at in reversed(range(len(first.takers))):
        waiting.setdefault(first.takers[at].rack or "", []).append(at)
    if not first.has_racks:
        return
    for number in range(len(first.racks)):
        candidates = []
        for rack in {"", *frozenset.intersection(*(share.racks[number] for share in shares))} & waiting.keys():
            while waiting[rack] and not first.left_for(waiting[rack][-1]):
                waiting[rack].pop()
            candidates += waiting[rack][-1:]
        if candidates:
            for share in shares:
                share.take(min(candidates), number)


ASSIGNOR = RangeAssignor()
