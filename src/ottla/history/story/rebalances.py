"""The rebalances of a story: verdicts with their sentences finished, and the columns that a page draws."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause, Evidence, Kind
from ottla.history.story.arrays import OwnerArrays
from ottla.history.story.sentences import advice_text, evidence_texts, sentence_of
from ottla.history.verdicts.cost import COOPERATIVE
from ottla.history.verdicts.verdict import REBALANCE, REFUSED, SettingAdvice, Verdict

PLANNED_GLYPHS: Final = {True: "\N{BLACK UP-POINTING TRIANGLE}", False: "\N{BLACK DOWN-POINTING TRIANGLE}", None: "?"}
AVOIDED_GLYPH: Final = "\N{WHITE DIAMOND}"
REFUSED_GLYPH: Final = "\N{MULTIPLICATION SIGN}"
"""The glyph of each verdict: it must be readable without its colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryRebalance:
    """One rebalance, or (`is_avoided`) one that did not happen, of one group. None: not known.

    It did not happen because static membership avoided it, or (`is_refused`) because the member that asked for it was refused.

    started_ms: the first trigger. join_ms: from there to the new generation; sync_ms: from there to the stored assignment. outcome:
    as `rebalances` has it. cause, candidates: codes (`Cause`). member: who set it off. silent_ms: how long that member had sent nothing.
    is_eager: every member stopped all its partitions. stopped: partitions that stood still until the end, stopped_ms: each of them.
    messages_in: what was produced to them meanwhile. generations: with those of second halves. sentence, evidence, sharper: finished
    text; `sharper` says what would have made the answer more certain.
    """

    started_ms: int
    join_ms: int | None = None
    sync_ms: int | None = None
    outcome: str = "completed"
    is_avoided: bool = False
    is_refused: bool = False
    generation: int | None = None
    generations: tuple[int, ...] = ()
    cause: str = "UNKNOWN"
    candidates: tuple[str, ...] = ()
    confidence: str = "low"
    planned: bool | None = None
    avoidable: bool | None = None
    member: Identity | None = None
    coalesced: tuple[str, ...] = ()
    silent_ms: int | None = None
    is_eager: bool | None = None
    members_before: int | None = None
    members_after: int | None = None
    stopped: int | None = None
    stopped_ms: int | None = None
    moved: int | None = None
    new: int | None = None
    messages_in: int | None = None
    sentence: str = ""
    evidence: tuple[str, ...] = ()
    advice: tuple[SettingAdvice, ...] = ()
    sharper: str | None = None

    @property
    def ended_ms(self) -> int:
        """When the assignment was stored, or the last that is known."""
        return self.started_ms + (self.join_ms or 0) + (self.sync_ms or 0)

    @property
    def stopped_seconds(self) -> float:
        """Partition-seconds stopped."""
        return (self.stopped or 0) * (self.stopped_ms or 0) / 1000

    @property
    def glyph(self) -> str:
        """The verdict as one character."""
        if self.is_refused:
            return REFUSED_GLYPH
        return AVOIDED_GLYPH if self.is_avoided else PLANNED_GLYPHS[self.planned]


_SILENT: Final = "silent_ms"


class Phases:
    """What evidence says about generations: when each was formed, and by which assignor it was assigned."""

    def __init__(self, evidence: Iterable[Evidence]) -> None:
        self._joined: dict[int, list[int]] = {}
        self._protocols: dict[int, str] = {}
        self._is_consumer_type = False
        for item in evidence:
            self._is_consumer_type |= item.group_type == "consumer"
            if item.generation is None:
                continue
            if item.kind is Kind.JOIN_COMPLETED:
                self._joined.setdefault(item.generation, []).append(item.at_ms)
            if item.protocol is not None and item.kind in (Kind.JOIN_COMPLETED, Kind.SYNC_COMPLETED):
                self._protocols[item.generation] = item.protocol

    def joined_ms(self, verdict: Verdict) -> int | None:
        """When the rebalance formed its generation."""
        ended_ms = verdict.started_ms if verdict.ended_ms is None else verdict.ended_ms
        formed = self._joined.get(-1 if verdict.generation is None else verdict.generation, ())
        return next((at_ms for at_ms in formed if verdict.started_ms <= at_ms <= max(ended_ms, verdict.started_ms)), None)

    def is_eager(self, verdict: Verdict) -> bool | None:
        """Whether all partitions stood still; None where the assignor is not known."""
        if self._is_consumer_type:
            return False
        protocol = self._protocols.get(-1 if verdict.generation is None else verdict.generation)
        return None if protocol is None else protocol not in COOPERATIVE


def judged_rebalances(verdicts: Sequence[Verdict], phases: Phases) -> list[StoryRebalance]:
    """The rebalances of verdicts, in their order."""
    return [_rebalance(verdict, phases) for verdict in verdicts]


def _rebalance(verdict: Verdict, phases: Phases) -> StoryRebalance:
    join_ms, sync_ms = _phases(verdict, phases.joined_ms(verdict))
    cost = verdict.cost
    length_ms = (join_ms or 0) + (sync_ms or 0)
    return StoryRebalance(
        started_ms=verdict.started_ms,
        join_ms=join_ms,
        sync_ms=sync_ms,
        outcome=verdict.outcome,
        is_avoided=verdict.kind != REBALANCE,
        is_refused=verdict.kind == REFUSED,
        generation=verdict.generation,
        generations=verdict.generations or (() if verdict.generation is None else (verdict.generation,)),
        cause=verdict.cause.value,
        candidates=tuple(cause.value for cause in verdict.candidates),
        confidence=verdict.confidence.name.lower(),
        planned=verdict.planned,
        avoidable=verdict.avoidable,
        member=verdict.who,
        coalesced=tuple(cause.value for cause in verdict.contributing),
        silent_ms=_silent_ms(verdict),
        is_eager=phases.is_eager(verdict),
        members_before=verdict.members_before,
        members_after=verdict.members_after,
        stopped=cost.stopped_partitions,
        stopped_ms=length_ms,
        moved=cost.moved_partitions,
        messages_in=cost.waiting_messages,
        sentence=sentence_of(verdict),
        evidence=evidence_texts(verdict),
        advice=verdict.advice,
        sharper=verdict.sharper,
    )


def _phases(verdict: Verdict, joined_ms: int | None) -> tuple[int | None, int | None]:
    """How long the joins and the assignment took; without its own line, a join takes all the time but a known `sync_ms`."""
    if verdict.ended_ms is None:
        return None if joined_ms is None else joined_ms - verdict.started_ms, None
    whole_ms = max(0, verdict.ended_ms - verdict.started_ms)
    if joined_ms is None:
        sync_ms = min(whole_ms, verdict.evidence.get("sync_ms", 0))
        return whole_ms - sync_ms, sync_ms
    return joined_ms - verdict.started_ms, max(0, verdict.ended_ms - joined_ms)


def _silent_ms(verdict: Verdict) -> int | None:
    """The silence right before the rebalance that it caused; that of a member that comes back lies further in the past."""
    if verdict.cause is not Cause.EXPIRE_HEARTBEAT:
        return None
    before, after = verdict.members_before, verdict.members_after
    if before is not None and after is not None and after > before:
        return None
    return _positive(verdict.evidence, _SILENT)


def _positive(figures: Mapping[str, int], name: str) -> int | None:
    value = figures.get(name)
    return value if value is not None and value > 0 else None


_PLAIN: Final = (
    *("started_ms", "join_ms", "sync_ms", "outcome", "generation", "cause", "confidence", "planned", "avoidable", "is_avoided"),
    *("is_refused", "silent_ms", "is_eager", "members_before", "members_after", "stopped", "stopped_ms", "moved", "new", "messages_in"),
    *("sentence", "sharper"),
)
_LISTS: Final = ("candidates", "coalesced", "evidence", "generations")
_MADE: Final[Mapping[str, Callable[[StoryRebalance], Any]]] = {
    "glyph": lambda each: each.glyph,
    "advice": lambda each: [advice_text(advice) for advice in each.advice],
    "member_name": lambda each: None if each.member is None else each.member.label,
    "stopped_seconds": lambda each: round(each.stopped_seconds, 3),
}


def rebalance_columns(rebalances: Sequence[StoryRebalance], rows: Sequence[int | None], owners: OwnerArrays) -> dict[str, list[Any]]:
    """A list a column, all as long as `rebalances`. `rows`: the row of the member that set each off.

    `assignments`: the indexes of the assignments that it stored, one a generation.
    """
    columns: dict[str, list[Any]] = {name: [getattr(rebalance, name) for rebalance in rebalances] for name in _PLAIN}
    columns |= {name: [list(getattr(rebalance, name)) for rebalance in rebalances] for name in _LISTS}
    columns |= {name: [made(rebalance) for rebalance in rebalances] for name, made in _MADE.items()}
    columns["row"] = list(rows)
    columns["assignments"] = stored_assignments(rebalances, owners)
    return columns


def stored_assignments(rebalances: Sequence[StoryRebalance], owners: OwnerArrays) -> list[list[int]]:
    """For each rebalance the first assignment of each of its generations that was stored after it began."""
    by_generation: dict[int, list[int]] = {}
    for index, generation in enumerate(owners.generation):
        if generation is not None:
            by_generation.setdefault(generation, []).append(index)
    found: list[list[int]] = []
    for rebalance in rebalances:
        generations = (
            () if rebalance.is_avoided else rebalance.generations or (() if rebalance.generation is None else (rebalance.generation,))
        )
        after = [[index for index in by_generation.get(it, ()) if owners.at_ms[index] >= rebalance.started_ms] for it in generations]
        found.append([indexes[0] for indexes in after if indexes])
    return found
