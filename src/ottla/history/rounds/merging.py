"""Joins what sources say of one generation into rounds, whatever their clocks say.

Sources of the whole group are joined by generation, or group epoch. What clients say about themselves is placed by the generations that
the same log says it joined before and after: a line between "joined generation 7" and "joined generation 9" is about generation 8 or 9:
about the loss of membership 7, which the first rebalance after 7 or that of the member's departure shows, or about the join of 9.
"""

from bisect import bisect_right
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from statistics import median_low
from typing import Final

from ottla.history.processes import KnownMembers, of_evidence
from ottla.history.rounds.membership import DEPARTS, Role, role_of
from ottla.history.rounds.round import Round
from ottla.history.rounds.splitting import SOURCE_RANK, Part, Stage, split
from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind
from ottla.history.sources.silence import unsaid
from ottla.protocol.model import TopicPartition

_Key = tuple[int, int]
"""How often the generation had started again, and the generation: the group was deleted and re-created, or a coordinator that was loaded
again had not written its last generations, and uses them once more."""


_Return = tuple[_Key, str | None, bool]
"""A static member that came back: after which generation, and its instance id; whether it was refused."""

FENCED_WITHIN_MS: Final = 60_000
"""A request of the replaced member this soon shows that it lives: the same story as its replacement."""
TAKES_TURNS_WITHIN_MS: Final = 3_000
"""An instance id that is replaced again this soon is taken in turns by two processes: one story."""
BEGINS_AGAIN_WITHIN_MS: Final = 10_000
EPOCHS_BEHIND_MAX: Final = 4
SEEN_WITHIN_MS: Final = 2_000
"""A client notices a loss no later than this after the coordinator, and often before it."""
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
    splits = {clock: split(items) for clock, items in clocks.items()}
    emptied = {part.generation for parts, _ in splits.values() for part in parts if part.is_emptied and len(part.generations) > 1}
    for clock, items in clocks.items():
        parts, commits = splits[clock]
        keyed = list(_keyed([piece for part in parts for piece in _pieces(part, emptied)]))
        lives = max((key[0] for key, _ in keyed), default=0)
        found.append((-lives, SOURCE_RANK[items[0].source], clock, keyed, commits))
    return ((keyed, commits) for *_, keyed, commits in sorted(found, key=lambda each: each[:3]))


def _pieces(part: Part, emptied: Container[int | None]) -> Iterator[Part]:
    """The part, or two, where other sources show that the group was empty in between: the log of a broker does not say so (KIP-848)."""
    at = next((at for at, item in enumerate(part.items[:-1]) if item.kind is Kind.JOIN_COMPLETED and item.generation in emptied), None)
    if at is None or part.is_emptied or len(part.generations) < 2:
        yield part
        return
    first, rest = part.items[: at + 1], part.items[at + 1 :]
    before = part.generations.index(first[-1].generation or 0) + 1
    yield replace(part, items=first, generations=part.generations[:before], stage=Stage.ENDED, is_emptied=True, reconciled=[])
    yield replace(
        part, items=rest, generations=part.generations[before:], old_generation=part.generations[before - 1], context=[], commits={}
    )


def _keyed(parts: list[Part]) -> Iterable[tuple[_Key, Part]]:
    """Each part with its key; one without a generation has that of the part before it."""
    restarts, last, before = 0, -1, None
    for part in parts:
        generation = part.generation
        if generation is not None:
            was_deleted = any(item.kind is Kind.DELETED for item in part.context)
            is_again = was_deleted or (before is not None and part.old_generation is not None and _is_over(before, part))
            if not part.is_avoided and (generation < last or (generation == last and is_again)):
                restarts += 1
            last = generation
            before = before if part.is_avoided else part
        yield (restarts, last), part


def _is_over(before: Part, part: Part) -> bool:
    """Whether a rebalance of the same generation is another one, and not the one before, which was interrupted and begins again."""
    return before.stage is Stage.ENDED or part.started_ms - before.items[-1].at_ms > BEGINS_AGAIN_WITHIN_MS


def _aligned(keyed: list[tuple[_Key, Part]], rounds: Mapping[_Key, Round]) -> list[tuple[_Key, Part]]:
    """The parts with the keys of the lives of the group that other sources show.

    One source may begin later, or hold only what a coordinator had written before it was loaded again. So each part belongs to the nearest
    round of its generation, in order. Clocks are as far apart as the generations are that both have once; where there are none, sources
    with equally many lives have the same ones.
    """
    by_generation: dict[int, list[tuple[int, Round]]] = {}
    for (life, number), rebalance in rounds.items():
        by_generation.setdefault(number, []).append((life, rebalance))
    counts = Counter(generation for (_, generation), part in keyed if not part.is_avoided)
    apart = [
        _apart_ms(part, by_generation[generation][0][1])
        for (_, generation), part in keyed
        if not part.is_avoided and counts[generation] == 1 == len(by_generation.get(generation, ()))
    ]
    lives = {life for life, _ in rounds}
    if not rounds or len(lives) == 1 == len({key[0] for key, _ in keyed}):
        return keyed
    if not apart and len(lives) == len({key[0] for key, _ in keyed}):
        return keyed
    skew_ms = median_low(apart) if apart else 0
    aligned: list[tuple[_Key, Part]] = []
    life, last, own = min(lives), -1, 0
    for (restarts, generation), part in keyed:
        if not part.is_avoided:
            life, own = (life + restarts - own if generation <= last else life), restarts
            near = [
                (abs(_apart_ms(part, rebalance) - skew_ms), of_life)
                for of_life, rebalance in by_generation.get(generation, ())
                if of_life >= life
            ]
            life, last = min(near)[1] if near else life, generation
        aligned.append(((life, generation), part))
    return aligned


def _apart_ms(part: Part, rebalance: Round) -> int:
    """How much later the clock of the part is: records are written at the end, and lines at the beginning, too."""
    other = rebalance.parts[0]
    return (part.ended_ms or part.started_ms) - (other.ended_ms or other.started_ms)


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
    known = avoided.setdefault((key, item.instance_id or item.member_id, item.kind is Kind.JOIN_REFUSED), [])
    same_clock = next((each.parts[-1] for each in reversed(known) if each.parts[-1].clock == part.clock), None)
    others = [each for each in known if all(other.clock != part.clock for other in each.parts)]
    within_ms = TAKES_TURNS_WITHIN_MS if item.kind is Kind.STATIC_REPLACED else FENCED_WITHIN_MS
    if same_clock is not None and part.started_ms - same_clock.items[-1].at_ms <= within_ms:
        same_clock.items += part.items
    elif others:
        min(others, key=lambda each: abs(each.started_ms - part.started_ms)).parts.append(part)
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
    """Finds rounds by generation. `lives`: of each time that generations began again, the place of its first round, and its generations."""

    def __init__(self, rounds: Sequence[Round]) -> None:
        self.rounds = [rebalance for rebalance in rounds if not rebalance.is_avoided and rebalance.generation is not None]
        self.lives: list[tuple[int, list[int]]] = []
        for at, rebalance in enumerate(self.rounds):
            if not self.lives or self.lives[-1][1][-1] >= _generation(rebalance):
                self.lives.append((at, []))
            self.lives[-1][1].append(_generation(rebalance))

    def first_after(self, generation: int, life: int) -> int:
        """The place of the first round after a generation."""
        start, generations = self.lives[life] if self.lives else (0, [])
        return start + bisect_right(generations, generation)

    def with_generation(self, generation: int | None) -> list[tuple[int, Round]]:
        """The rounds of a generation, each with its life."""
        places = ((life, bisect_right(of_life, generation or 0) - 1) for life, (_, of_life) in enumerate(self.lives))
        found = ((life, self.rounds[self.lives[life][0] + at]) for life, at in places if at >= 0)
        return [(life, rebalance) for life, rebalance in found if rebalance.generation == generation]

    def skew_ms(self, items: Sequence[Evidence]) -> int:
        """How far a client's clock is ahead, by the generations that it joined and that there are once."""
        found = ((item, self.with_generation(item.generation)) for item in items if item.kind is Kind.CLIENT_JOINED)
        apart = [item.at_ms - (rounds[0][1].ended_ms or rounds[0][1].started_ms) for item, rounds in found if len(rounds) == 1]
        return median_low(apart) if apart else 0


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
    membership: Evidence | None = None
    waiting: list[Evidence] = []
    life, skew_ms = 0, index.skew_ms(items) if len(index.lives) > 1 else 0
    for item in items:
        if item.kind is Kind.CLIENT_JOINED and item.generation is not None:
            before, found = life, [each for each in index.with_generation(item.generation) if each[0] >= life]
            if len(index.lives) > 1 and found:
                life = min(found, key=lambda each: abs(item.at_ms - skew_ms - (each[1].ended_ms or each[1].started_ms)))[0]
            first = None if joined is None else index.first_after(joined, before)
            _place_between(waiting, first, index.first_after(item.generation, life) - 1, index, before)
            if membership is not None and first is not None:
                _note_unsaid(membership, waiting, index.rounds[first : index.first_after(item.generation, life)])
            at = index.first_after(item.generation - 1, life)
            if at < len(index.rounds) and item.generation in _generations(index.rounds[at]):
                index.rounds[at].client_items.append(item)
                if joined is None or any(each.kind in _LOSSES for each in waiting):
                    index.rounds[at].client_arrivals.append(item)
            waiting, joined, membership = [], item.generation, item
        else:
            waiting.append(item)
    _place_between(waiting, None if joined is None else index.first_after(joined, life), None, index, life)


def _note_unsaid(joined: Evidence, said: Sequence[Evidence], rounds: Iterable[Round]) -> None:
    """The rounds between a join and the next one, which the log covers, have what it would say of that membership and does not."""
    if joined.member_id is not None:
        causes = unsaid(joined, said)
        for rebalance in rounds:
            rebalance.unsaid[joined.member_id] = causes


def _place_between(items: Sequence[Evidence], after_joined: int | None, next_joined: int | None, index: _Index, life: int) -> None:
    """Lines after one generation was joined, whose next round `after_joined` is, and before the round `next_joined` was."""
    if after_joined is None and next_joined is None and all(item.generation is None for item in items):
        _place_by_member(items, index)
        return
    last = next_joined if next_joined is not None else len(index.rounds) - 1
    for item in items:
        first = after_joined
        if item.generation is not None and item.kind in _LOSSES:
            first = index.first_after(item.generation, life)
        if item.kind in _LOSSES:
            at = next(iter(_departures_between(item, first if first is not None else 0, last, index)), first)
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
        places = _departures_between(item, 0, len(index.rounds) - 1, index) if item.kind in _LOSSES else []
        later = (at for at in places if index.rounds[at].started_ms >= item.at_ms - SEEN_WITHIN_MS)
        at = next(later, places[-1] if places else None)  # a KIP-848 member keeps its id, and may go several times
        if at is not None:
            index.rounds[at].client_items.append(item)


def _departures_between(item: Evidence, first: int, last: int, index: _Index) -> list[int]:
    """The rounds in which the member goes, as a source of the whole group says."""
    if item.member_id is None:
        return []
    return [
        at
        for at in range(first, last + 1)
        if any(said.member_id == item.member_id and role_of(said) in DEPARTS for said in index.rounds[at].items)
    ]
