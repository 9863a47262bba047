"""Places what clients say about themselves: by the generations that the same log says it joined before and after.

Clocks are not compared.

A line between "joined generation 7" and "joined generation 9" is about generation 8 or 9: about the loss of membership 7, which the first
rebalance after 7 or that of the member's departure shows, or about the join of 9.
"""

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ottla.history.rounds.changes import DEPARTS, Role, role_of
from ottla.history.rounds.identity import KnownMembers, of_evidence
from ottla.history.rounds.round import Round
from ottla.history.sources.cause_codes import Cause
from ottla.history.sources.model import Evidence, Kind

EPOCHS_BEHIND_MAX: Final = 4
_LOSSES: Final = frozenset({Kind.CLIENT_LEAVES, Kind.CLIENT_LOST})


class ClientLogs:
    """Places the client logs of one group. `known`: what all sources say about member ids."""

    def __init__(self, known: KnownMembers) -> None:
        self._known = known

    def place(self, group: str, rounds: list[Round], logs: Mapping[str, Sequence[Evidence]]) -> list[Round]:
        """Add each item to its round; generations that only clients saw become rounds. The rounds stay in order."""
        if not logs:
            return rounds
        rounds = _with_seen_by_clients(group, rounds, logs)
        index = _Index(rounds)
        for items in logs.values():
            for of_member in self._by_member(items).values():
                _place(of_member, index)
        return [each for each in rounds if each.parts or each.client_items]

    def _by_member(self, items: Sequence[Evidence]) -> dict[str, list[Evidence]]:
        """One log may be of several consumers."""
        found: dict[str, list[Evidence]] = {}
        for item in items:
            who = self._known.complete(of_evidence(item))
            found.setdefault(who.client_id or who.instance_id or who.name or "", []).append(item)
        return found


class _Index:
    """Finds rounds by generation."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.rounds = [each for each in rounds if not each.is_avoided and each.generation is not None]
        self.rounds.sort(key=_generation)
        self._generations = [_generation(each) for each in self.rounds]

    def first_after(self, generation: int) -> int:
        """The place of the first round after a generation."""
        return bisect_right(self._generations, generation)


def _generation(each: Round) -> int:
    return each.generation or 0


def _generations(each: Round) -> set[int | None]:
    """A rebalance may have several: those that were superseded, and KIP-848 epochs that one assignment answers."""
    return {each.generation, *(generation for part in each.parts for generation in part.generations)}


def _with_seen_by_clients(group: str, rounds: list[Round], logs: Mapping[str, Sequence[Evidence]]) -> list[Round]:
    known = {generation for each in rounds for generation in _generations(each)}
    seen = {item.generation for items in logs.values() for item in items if item.kind is Kind.CLIENT_JOINED and item.generation is not None}
    if not rounds:
        seen |= {generation + 1 for items in logs.values() for generation in _lost(items)}
    added = [Round(group=group, generation=generation, parts=[]) for generation in sorted(seen - known) if generation is not None]
    if not added:
        return rounds
    last = -1
    keyed = []
    for at, each in enumerate(rounds):
        last = each.generation if each.generation is not None else last
        keyed.append(((last, 0, at), each))
    if any(one[0][0] > other[0][0] for one, other in pairwise(keyed)):
        return rounds  # the generations started again, so nothing says where another one belongs
    keyed += [((each.generation or 0, -1, at), each) for at, each in enumerate(added)]
    return [each for _, each in sorted(keyed, key=lambda one: one[0])]


def _lost(items: Sequence[Evidence]) -> Iterator[int]:
    """Generations after which a client lost its membership: where no other source says so, the next one is due to it."""
    joined: int | None = None
    for item in items:
        if item.kind is Kind.CLIENT_JOINED and item.generation is not None:
            joined = item.generation
        elif item.kind in _LOSSES and joined is not None:
            yield joined


def _place(items: Sequence[Evidence], index: _Index) -> None:
    """Walk one member's lines in their order."""
    joined: int | None = None
    waiting: list[Evidence] = []
    for item in items:
        if item.kind is Kind.CLIENT_JOINED and item.generation is not None:
            _place_between(waiting, joined, item.generation, index)
            at = index.first_after(item.generation - 1)
            if at < len(index.rounds) and item.generation in _generations(index.rounds[at]):
                index.rounds[at].client_items.append(item)
                if joined is None or any(each.kind in _LOSSES for each in waiting):
                    index.rounds[at].client_arrivals.append(item)
            waiting, joined = [], item.generation
        else:
            waiting.append(item)
    _place_between(waiting, joined, None, index)


def _place_between(items: Sequence[Evidence], joined: int | None, next_joined: int | None, index: _Index) -> None:
    """Lines after one generation was joined and before the next was."""
    if joined is None and next_joined is None and all(item.generation is None for item in items):
        _place_by_member(items, index)
        return
    for item in items:
        after = item.generation if item.generation is not None and item.kind in _LOSSES else joined
        first = index.first_after(after) if after is not None else None
        last = index.first_after(next_joined) - 1 if next_joined is not None else len(index.rounds) - 1
        if item.kind in _LOSSES:
            at = _departure_between(item, first if first is not None else 0, last, index)
            at = first if at is None else at
        else:
            at = last if next_joined is not None else first
            if item.trigger == Cause.SUBSCRIPTION and first is not None:
                alone = _epoch_alone_from(first, index)
                if alone is not None:
                    index.rounds[alone].client_items.append(item)
                    continue
        if at is not None and 0 <= at <= last < len(index.rounds):
            index.rounds[at].client_items.append(item)


def _epoch_alone_from(first: int, index: _Index) -> int | None:
    """The first epoch in which no member comes or goes: a KIP-848 member may be some epochs behind its group when it subscribes."""
    for at, each in enumerate(index.rounds[first : first + EPOCHS_BEHIND_MAX], first):
        if each.is_consumer_type and not any(role_of(item) in (Role.JOINED, *DEPARTS) for item in each.items):
            return at
    return None


def _place_by_member(items: Sequence[Evidence], index: _Index) -> None:
    """A log that never says which generation it joined: its losses belong to the departures of the same member."""
    for item in items:
        at = _departure_between(item, 0, len(index.rounds) - 1, index) if item.kind in _LOSSES else None
        if at is not None:
            index.rounds[at].client_items.append(item)


def _departure_between(item: Evidence, first: int, last: int, index: _Index) -> int | None:
    """The first round in which the member goes, as a source of the whole group says."""
    if item.member_id is None:
        return None
    for at in range(first, last + 1):
        for said in index.rounds[at].items:
            if said.member_id == item.member_id and role_of(said) in DEPARTS:
                return at
    return None
