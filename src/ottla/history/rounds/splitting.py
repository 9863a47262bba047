"""Splits the evidence of one clock about one group into rebalances, in the order of that clock: one part a rebalance.

Works for every source that sees the group as a whole: group events, broker logs, the offsets topic, polling. Lines without a generation
belong to the rebalance that is open, or to the one that they begin.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Final

from ottla.history.sources.evidence import Cause, CommitSpan, Evidence, Kind, Source
from ottla.protocol.model import TopicPartition

SOURCE_RANK: Final = {source: rank for rank, source in enumerate(Source)}
"""The most informative source has rank 0."""


class Stage(IntEnum):
    """How far the rebalance is: members came or went; a trigger was seen; the generation is formed; the assignment is stored."""

    COLLECTING = 0
    TRIGGERED = 1
    FORMED = 2
    ENDED = 3


@dataclass(slots=True, kw_only=True, eq=False)
class Part:
    """The evidence of one clock about one rebalance, or (`is_avoided`) about one that did not happen.

    `generation`: the one that it formed, with those of KIP-848 bumps before it in `generations`; `old_generation`: the one before it.
    `context`: what came just before and belongs to no rebalance (coordinator moves, conversions). `reconciled`: KIP-848 members that have
    come to its target, or have given up partitions for it. `commits`: since the part before.
    """

    clock: str
    source: Source
    stage: Stage = Stage.COLLECTING
    is_avoided: bool = False
    old_generation: int | None = None
    generations: list[int] = field(default_factory=list)
    items: list[Evidence] = field(default_factory=list)
    context: list[Evidence] = field(default_factory=list)
    reconciled: list[Evidence] = field(default_factory=list)
    commits: Mapping[TopicPartition, CommitSpan] = field(default_factory=dict)
    formed_ms: int | None = None
    is_emptied: bool = False
    is_interrupted: bool = False

    @property
    def generation(self) -> int | None:
        """The generation that it formed, or would have formed."""
        if self.generations:
            return self.generations[-1]
        return None if self.old_generation is None else self.old_generation + 1

    @property
    def started_ms(self) -> int:
        """When the first member came or went, or the first trigger was seen."""
        return self.items[0].at_ms

    @property
    def ended_ms(self) -> int | None:
        """When the assignment was stored, or the group became empty; None where it never came to that."""
        return self.items[-1].at_ms if self.stage is Stage.ENDED else None

    def of_kind(self, *kinds: Kind) -> list[Evidence]:
        """The items of these kinds, in their order."""
        return [item for item in self.items if item.kind in kinds]


CONSUMER_TYPE: Final = "consumer"
"""The `group_type` of KIP-848 groups."""

COLLECTS_MS: Final = 5_000
"""A member that came or went longer ago than this does not belong to the trigger that follows."""

BUMPS_TOGETHER_MS: Final = 2_000
"""KIP-848: epochs this close, with no target assignment in between, are one rebalance (4.3 computes targets once a second)."""

_CONTEXT: Final = frozenset({Kind.LOADED, Kind.UNLOADED, Kind.CONVERTED, Kind.DELETED})


def split(evidence: Iterable[Evidence]) -> tuple[list[Part], Mapping[TopicPartition, CommitSpan]]:
    """The parts of one clock's evidence, which is in the order of that clock; and the commits after the last part."""
    splitter = _Splitter()
    for item in evidence:
        splitter.take(item)
    return splitter.finish()


class _Splitter:
    def __init__(self) -> None:
        self._parts: list[Part] = []
        self._open: Part | None = None
        self._context: list[Evidence] = []
        self._commits: dict[TopicPartition, CommitSpan] = {}

    def take(self, item: Evidence) -> None:
        handler = _HANDLERS.get(item.kind)
        if handler is not None:
            handler(self, item)

    def finish(self) -> tuple[list[Part], Mapping[TopicPartition, CommitSpan]]:
        self._drop_unformed()
        return self._parts, self._commits

    # Each kind of evidence

    def trigger(self, item: Evidence) -> None:
        if item.group_type == CONSUMER_TYPE and self._is_emptied_to((item.generation or 0) + 1):
            self._parts[-1].items.insert(-1, item)  # several members left, or were lost, at once
            return
        returned: list[Evidence] = []
        if self._parts and self._parts[-1].is_avoided and _was_not_avoided(self._parts[-1], item):
            returned = self._parts.pop().items
        part = self._open
        if part is None or not _takes_trigger(part, item):
            part = self._begin(item)
        elif part.stage is Stage.COLLECTING and _is_stale(part, item):
            self._drop_unformed()
            part = self._begin(item)
        part.items += [*returned, item]
        part.stage = max(part.stage, Stage.TRIGGERED)
        if part.old_generation is None:
            part.old_generation = item.generation

    def member_changed(self, item: Evidence) -> None:
        if is_static_leave(item):
            self._context.append(item)
            return
        part = self._open
        if part is not None and part.stage is Stage.COLLECTING and _is_stale(part, item):
            self._drop_unformed()
            part = None
        if part is None or (part.stage is Stage.FORMED and not _is_together(part, item)):
            part = self._begin(item)
        part.items.append(item)

    def formed(self, item: Evidence) -> None:
        part = self._open
        if part is None and self._is_rewritten(item):
            return
        if part is None or (part.stage is Stage.FORMED and not (item.generation in part.generations or _is_together(part, item))):
            part = self._begin(item)
        part.items.append(item)
        part.stage = Stage.FORMED
        part.formed_ms = item.at_ms
        if item.generation is not None and item.generation not in part.generations:
            part.generations.append(item.generation)

    def stored(self, item: Evidence) -> None:
        part = self._open
        if part is None and (self._is_rewritten(item) or (self._parts and _is_repeated(self._parts[-1], item))):
            return
        if part is None or (part.stage is Stage.FORMED and item.generation not in (None, *part.generations)):
            part = self._begin(item)
        part.items.append(item)
        if part.generations and item.generation is not None and item.generation < part.generations[-1]:
            return  # the target assignment of an epoch that was increased again meanwhile
        self._end(part, item)

    def emptied(self, item: Evidence) -> None:
        if item.group_type == CONSUMER_TYPE and self._is_emptied_to(item.generation):
            return
        part = self._open or self._begin(item)
        part.items.append(item)
        part.is_emptied = True
        self._end(part, item)

    def static_changed(self, item: Evidence) -> None:
        if self._open is not None and self._open.stage in (Stage.TRIGGERED, Stage.FORMED):
            self._open.items.append(item)
            return
        part = Part(clock=item.clock, source=item.source, stage=Stage.ENDED, is_avoided=True, items=[item])
        if item.generation is not None:
            part.generations.append(item.generation)
        part.context = [each for each in self._context if is_static_leave(each) and each.instance_id == item.instance_id]
        self._context = [each for each in self._context if each not in part.context]  # it is back
        part.context += [each for each in self._context if each.kind in (Kind.LOADED, Kind.UNLOADED)]
        self._parts.append(part)

    def refused(self, item: Evidence) -> None:
        self._parts.append(refused_part(item))

    def context(self, item: Evidence) -> None:
        part = self._open
        if item.kind is Kind.CONVERTED and part is not None:
            part.context.append(item)
            return
        if part is not None and item.kind is not Kind.CONVERTED:
            part.is_interrupted = part.stage in (Stage.TRIGGERED, Stage.FORMED)
            self._drop_unformed()
        self._context.append(item)

    def observed(self, item: Evidence) -> None:
        self._context.append(item)

    def reconciled(self, item: Evidence) -> None:
        part = next((part for part in reversed(self._parts) if not part.is_avoided), None)
        if part is not None:
            part.reconciled.append(item)

    def topics_changed(self, item: Evidence) -> None:
        if item.group_type == CONSUMER_TYPE:
            self.member_changed(item)
        else:
            self._context.append(item)

    def commits(self, item: Evidence) -> None:
        for partition, span in item.commits.items():
            earlier = self._commits.get(partition)
            self._commits[partition] = span if earlier is None else joined_spans(earlier, span)

    # The open part

    def _is_rewritten(self, item: Evidence) -> bool:
        """Whether a conversion writes down the generation that was there already."""
        is_converted = any(each.kind is Kind.CONVERTED for each in self._context)
        return is_converted and bool(self._parts) and item.generation is not None and item.generation in self._parts[-1].generations

    def _is_emptied_to(self, generation: int | None) -> bool:
        part = self._parts[-1] if self._parts and self._open is None else None
        return part is not None and part.is_emptied and generation is not None and generation in part.generations

    def _begin(self, item: Evidence) -> Part:
        self._drop_unformed()
        part = Part(clock=item.clock, source=item.source, context=self._context, commits=self._commits)
        self._context, self._commits = [], {}
        self._open = part
        self._parts.append(part)
        return part

    def _end(self, part: Part, item: Evidence) -> None:
        part.stage = Stage.ENDED
        if item.generation is not None and item.generation not in part.generations:
            part.generations.append(item.generation)
        self._open = None

    def _drop_unformed(self) -> None:
        """Close the open part; members that came or went without any rebalance leave no part."""
        part, self._open = self._open, None
        if part is not None and part.stage is Stage.COLLECTING:
            _remove(self._parts, part)
            self._context = part.context + self._context
            for partition, span in part.commits.items():
                later = self._commits.get(partition)
                self._commits[partition] = span if later is None else joined_spans(span, later)


def _remove(parts: list[Part], part: Part) -> None:
    """Remove the open part; only avoided ones may stand behind it."""
    at = len(parts) - 1
    while parts[at] is not part:
        at -= 1
    del parts[at]


def joined_spans(earlier: CommitSpan, later: CommitSpan) -> CommitSpan:
    """Two spans of commits of one partition as one."""
    count = earlier.commit_count + later.commit_count
    return CommitSpan(earlier.first_ms, later.last_ms, earlier.first_offset, later.last_offset, count)


def refused_part(item: Evidence) -> Part:
    """A rebalance that there was not, since the member may not join."""
    return Part(clock=item.clock, source=item.source, stage=Stage.ENDED, is_avoided=True, items=[item])


def is_static_leave(item: Evidence) -> bool:
    """Whether a static member left for now (KIP-848, epoch -2): its partitions wait for it, without a rebalance."""
    return item.kind is Kind.MEMBER_LEFT and Cause.STATIC_REJOIN in (item.trigger, *item.candidates[:1])


def _takes_trigger(part: Part, item: Evidence) -> bool:
    """Whether a trigger belongs to the open part: it began with members, or this trigger came while members were joining."""
    if item.group_type == CONSUMER_TYPE and part.stage is Stage.FORMED:
        return item.coalesced and _is_together(part, item)
    if part.stage is Stage.TRIGGERED:
        return item.coalesced or item.generation is None or part.old_generation in (None, item.generation)
    return part.stage is Stage.COLLECTING


def _was_not_avoided(part: Part, item: Evidence) -> bool:
    """Whether the return of a static member was taken for one that needs no rebalance, and this is its trigger after all."""
    last = part.items[-1]
    return item.instance_id is not None and item.instance_id == last.instance_id and item.at_ms - last.at_ms <= BUMPS_TOGETHER_MS


def _is_stale(part: Part, item: Evidence) -> bool:
    return item.at_ms - part.items[-1].at_ms > COLLECTS_MS


def _is_together(part: Part, item: Evidence) -> bool:
    return item.group_type == CONSUMER_TYPE and part.formed_ms is not None and item.at_ms - part.formed_ms <= BUMPS_TOGETHER_MS


def _is_repeated(part: Part, item: Evidence) -> bool:
    """Whether a stored assignment is that of the part before, once more (KIP-848: for an epoch that has its target)."""
    return not part.is_avoided and item.generation is not None and item.generation in part.generations and item.members is None


_HANDLERS: Final[Mapping[Kind, Callable[[_Splitter, Evidence], None]]] = {
    Kind.TRIGGER: _Splitter.trigger,
    Kind.MEMBER_JOINED: _Splitter.member_changed,
    Kind.MEMBER_LEFT: _Splitter.member_changed,
    Kind.MEMBER_REMOVED: _Splitter.member_changed,
    Kind.JOIN_COMPLETED: _Splitter.formed,
    Kind.SYNC_COMPLETED: _Splitter.stored,
    Kind.EMPTIED: _Splitter.emptied,
    Kind.STATIC_REPLACED: _Splitter.static_changed,
    Kind.STATIC_FENCED: _Splitter.static_changed,
    Kind.JOIN_REFUSED: _Splitter.refused,
    Kind.TOPICS_CHANGED: _Splitter.topics_changed,
    Kind.MEMBER_RECONCILED: _Splitter.reconciled,
    Kind.COMMITS: _Splitter.commits,
    Kind.OBSERVED: _Splitter.observed,
    **dict.fromkeys(_CONTEXT, _Splitter.context),
}
