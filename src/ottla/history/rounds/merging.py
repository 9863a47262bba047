"""Joins what sources say of one generation into rounds, whatever their clocks say.

Sources of the whole group are joined by generation, or group epoch. What clients say about themselves is placed by the generations that
the same log says it joined before and after: a line between "joined generation 7" and "joined generation 9" is about generation 8 or 9:
about the loss of membership 7, which the first rebalance after 7 or that of the member's departure shows, or about the join of 9.
"""

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final

from ottla.history.processes import KnownMembers, of_evidence
from ottla.history.rounds.membership import DEPARTS, Role, role_of
from ottla.history.rounds.round import Round
from ottla.history.rounds.splitting import SOURCE_RANK, Part, Stage, split
from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind
from ottla.protocol.model import TopicPartition

_Key = tuple[int, int]
"""How often the generation had started again (the group was deleted and re-created), and the generation."""


_Return = tuple[_Key, str | None]
"""A static member that came back: after which generation, and its instance id."""

FENCED_WITHIN_MS: Final = 60_000
"""A request of the replaced member this soon shows that it lives: the same story as its replacement."""
EPOCHS_BEHIND_MAX: Final = 4
_LOSSES: Final = frozenset({Kind.CLIENT_LEAVES, Kind.CLIENT_LOST})


def by_clock(evidence: Iterable[Evidence]) -> dict[str, list[Evidence]]:
    """The evidence of each clock in the order of its times; equal times keep their order."""
    found: dict[str, list[Evidence]] = {}
    for item in evidence:
        found.setdefault(item.clock, []).append(item)
    for items in found.values():
        items.sort(key=lambda item: item.at_ms)
    return found


def merge(group: str, clocks: Mapping[str, Sequence[Evidence]]) -> list[Round]:
    """The rounds that the sources of the whole group show, in their order; `clocks` as from `by_clock`."""
    rounds: dict[_Key, Round] = {}
    avoided: dict[_Return, list[Round]] = {}
    loose: list[tuple[_Key, Round]] = []
    for keyed, commits in _split_clocks(clocks):
        for key, part in _aligned(keyed, rounds):
            if part.is_avoided:
                _add_avoided(avoided, key, part, group)
            elif part.generation is None:
                loose.append((key, Round(group=group, generation=None, parts=[part])))
            else:
                _add(rounds, key, part, group)
        if rounds and commits:
            rounds[max(rounds)].commits_after = commits
    loose += [(key, each) for (key, *_), of_member in avoided.items() for each in of_member]
    return _ordered(rounds, loose)


def _split_clocks(
    clocks: Mapping[str, Sequence[Evidence]],
) -> Iterator[tuple[list[tuple[_Key, Part]], Mapping[TopicPartition, CommitSpan]]]:
    """The parts of each clock with their keys, and its last commits: clocks that show most lives of the group first."""
    found = []
    for clock, items in clocks.items():
        parts, commits = split(items)
        keyed = list(_keyed(parts))
        lives = max((key[0] for key, _ in keyed), default=0)
        found.append((-lives, SOURCE_RANK[items[0].source], clock, keyed, commits))
    return ((keyed, commits) for *_, keyed, commits in sorted(found, key=lambda each: each[:3]))


def _keyed(parts: list[Part]) -> Iterable[tuple[_Key, Part]]:
    """Each part with its key; one without a generation has that of the part before it."""
    restarts, last = 0, -1
    for part in parts:
        generation = part.generation
        if generation is not None:
            was_deleted = any(item.kind is Kind.DELETED for item in part.context)
            if not part.is_avoided and (generation < last or (generation == last and was_deleted)):
                restarts += 1
            last = generation
        yield (restarts, last), part


def _aligned(keyed: list[tuple[_Key, Part]], rounds: Mapping[_Key, Round]) -> list[tuple[_Key, Part]]:
    """The parts with the keys of the lives of the group that other sources show: one that begins later knows nothing of earlier lives."""
    lives: dict[int, int] = {}
    for (restarts, generation), part in keyed:
        if restarts in lives or part.is_avoided:
            continue
        near = [(abs(rebalance.started_ms - part.started_ms), life) for (life, number), rebalance in rounds.items() if number == generation]
        if near:
            lives[restarts] = min(near)[1]
    is_same = all(restarts == life for restarts, life in lives.items())
    if is_same or len(set(lives.values())) < len(lives):
        return keyed
    shift = max(life - restarts for restarts, life in lives.items())
    return [((lives.get(restarts, restarts + shift), generation), part) for (restarts, generation), part in keyed]


def _add(rounds: dict[_Key, Round], key: _Key, part: Part, group: str) -> None:
    known = rounds.get(key)
    if known is None:
        rounds[key] = Round(group=group, generation=part.generation, parts=[part])
    elif known.parts[-1].clock == part.clock:
        known.parts[-1] = _joined(known.parts[-1], part)
    else:
        known.parts.append(part)


def _joined(first: Part, second: Part) -> Part:
    """A rebalance that was interrupted and begun again, as one."""
    second.items[:0] = first.items
    second.context[:0] = first.context
    second.commits = {**first.commits, **second.commits}
    second.old_generation = first.old_generation if second.old_generation is None else second.old_generation
    return second


def _add_avoided(avoided: dict[_Return, list[Round]], key: _Key, part: Part, group: str) -> None:
    """Add it, or its part where another source showed the same return."""
    item = part.items[0]
    known = avoided.setdefault((key, item.instance_id or item.member_id), [])
    same_clock = next((each.parts[-1] for each in reversed(known) if each.parts[-1].clock == part.clock), None)
    if item.kind is Kind.STATIC_FENCED and same_clock is not None and part.started_ms - same_clock.started_ms <= FENCED_WITHIN_MS:
        same_clock.items.append(item)
    elif known and same_clock is None:
        known[-1].parts.append(part)
    else:
        generation = part.generation if part.generation is not None or key[1] < 0 else key[1]
        known.append(Round(group=group, generation=generation, parts=[part], is_avoided=True))


def _ordered(rounds: dict[_Key, Round], loose: list[tuple[_Key, Round]]) -> list[Round]:
    """By generation; a round without one stands behind that of the generation before it."""
    for rebalance in rounds.values():
        # The most informative source first; of two logs, the one of the coordinator that saw the end.
        rebalance.parts.sort(key=lambda part: (SOURCE_RANK[part.source], part.stage is not Stage.ENDED))
    placed = [((*key, 0, at), rebalance) for at, (key, rebalance) in enumerate(rounds.items())]
    placed += [((*key, 1, at), each) for at, (key, each) in enumerate(loose)]
    placed.sort(key=lambda each: each[0])
    return [each for _, each in placed]


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
        return [rebalance for rebalance in rounds if rebalance.parts or rebalance.client_items]

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
        self.rounds = [rebalance for rebalance in rounds if not rebalance.is_avoided and rebalance.generation is not None]
        self.rounds.sort(key=_generation)
        self._generations = [_generation(rebalance) for rebalance in self.rounds]

    def first_after(self, generation: int) -> int:
        """The place of the first round after a generation."""
        return bisect_right(self._generations, generation)


def _generation(rebalance: Round) -> int:
    return rebalance.generation or 0


def _generations(rebalance: Round) -> set[int | None]:
    """A rebalance may have several: those that were superseded, and KIP-848 epochs that one assignment answers."""
    return {rebalance.generation, *(generation for part in rebalance.parts for generation in part.generations)}


def _with_seen_by_clients(group: str, rounds: list[Round], logs: Mapping[str, Sequence[Evidence]]) -> list[Round]:
    known = {generation for rebalance in rounds for generation in _generations(rebalance)}
    seen = {item.generation for items in logs.values() for item in items if item.kind is Kind.CLIENT_JOINED and item.generation is not None}
    if not rounds:
        seen |= {generation + 1 for items in logs.values() for generation in _lost(items)}
    added = [Round(group=group, generation=generation, parts=[]) for generation in sorted(seen - known) if generation is not None]
    if not added:
        return rounds
    last = -1
    keyed = []
    for at, rebalance in enumerate(rounds):
        last = rebalance.generation if rebalance.generation is not None else last
        keyed.append(((last, 0, at), rebalance))
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
    for at, rebalance in enumerate(index.rounds[first : first + EPOCHS_BEHIND_MAX], first):
        if rebalance.is_consumer_type and not any(role_of(item) in (Role.JOINED, *DEPARTS) for item in rebalance.items):
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
