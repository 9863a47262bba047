"""Verdicts as the rebalances of a story."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.model import Evidence, Kind
from ottla.core.diagnosis.story.rebalance import MemberName, StoryRebalance
from ottla.core.diagnosis.story.sentences import evidence_texts, sentence_of
from ottla.core.diagnosis.verdicts.cost import COOPERATIVE
from ottla.core.diagnosis.verdicts.verdict import AVOIDED, Verdict

_SILENT: Final = "silent_ms"


class Phases:
    """What evidence says about generations: when each was formed, and by which assignor it was assigned."""

    def __init__(self, evidence: Iterable[Evidence]) -> None:
        self._joined: dict[int, list[int]] = {}
        self._protocols: dict[int, str] = {}
        self._is_consumer_type = False
        for each in evidence:
            self._is_consumer_type |= each.group_type == "consumer"
            if each.generation is None:
                continue
            if each.kind is Kind.JOIN_COMPLETED:
                self._joined.setdefault(each.generation, []).append(each.at_ms)
            if each.protocol is not None and each.kind in (Kind.JOIN_COMPLETED, Kind.SYNC_COMPLETED):
                self._protocols[each.generation] = each.protocol

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
        is_avoided=verdict.kind == AVOIDED,
        generation=verdict.generation,
        generations=verdict.generations or (() if verdict.generation is None else (verdict.generation,)),
        cause=verdict.cause.value,
        candidates=tuple(cause.value for cause in verdict.candidates),
        confidence=verdict.confidence.name.lower(),
        planned=verdict.planned,
        avoidable=verdict.avoidable,
        member=None if verdict.who is None else MemberName(*verdict.who),
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
