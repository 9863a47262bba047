"""Joins the parts of several clocks into rounds: what sources say about one generation belongs together, whatever their clocks say."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ottla.history.rounds.round import Round
from ottla.history.rounds.splitting import SOURCE_RANK, Part, Stage, split
from ottla.history.sources.model import CommitSpan, Evidence, Kind
from ottla.protocol.model import TopicPartition

_Key = tuple[int, int]
"""How often the generation had started again (the group was deleted and re-created), and the generation."""


_Return = tuple[_Key, str | None]
"""A static member that came back: after which generation, and its instance id."""

FENCED_WITHIN_MS: Final = 60_000
"""A request of the replaced member this soon shows that it lives: the same story as its replacement."""


def by_clock(evidence: Iterable[Evidence]) -> dict[str, list[Evidence]]:
    """The evidence of each clock in the order of its times; equal times keep their order."""
    found: dict[str, list[Evidence]] = {}
    for item in evidence:
        found.setdefault(item.clock, []).append(item)
    for items in found.values():
        items.sort(key=_at_ms)
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


def _at_ms(item: Evidence) -> int:
    return item.at_ms


def _rank(part: Part) -> tuple[int, bool]:
    """The most informative source first; of two logs, the one of the coordinator that saw the end."""
    return SOURCE_RANK[part.source], part.stage is not Stage.ENDED


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
        near = [(abs(each.started_ms - part.started_ms), life) for (life, number), each in rounds.items() if number == generation]
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
    for each in rounds.values():
        each.parts.sort(key=_rank)
    placed = [((*key, 0, at), each) for at, (key, each) in enumerate(rounds.items())]
    placed += [((*key, 1, at), each) for at, (key, each) in enumerate(loose)]
    placed.sort(key=lambda each: each[0])
    return [each for _, each in placed]
