"""A rebalance as a story shows it: judged, with its sentences finished."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.core.diagnosis.verdicts.verdict import SettingAdvice

PLANNED_GLYPHS: Final = {True: "\N{BLACK UP-POINTING TRIANGLE}", False: "\N{BLACK DOWN-POINTING TRIANGLE}", None: "?"}
AVOIDED_GLYPH: Final = "\N{WHITE DIAMOND}"
"""The glyph of each verdict: it must be readable without its colour."""


class MemberName(NamedTuple):
    """A member as evidence names it; None: the evidence does not say."""

    member_id: str | None
    instance_id: str | None
    client_id: str | None
    client_host: str | None

    @property
    def text(self) -> str:
        """How a sentence calls it."""
        return self.instance_id or self.client_id or self.member_id or "a member"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoryRebalance:
    """One rebalance, or one that static membership avoided (`is_avoided`), of one group. None: not known.

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
    generation: int | None = None
    generations: tuple[int, ...] = ()
    cause: str = "UNKNOWN"
    candidates: tuple[str, ...] = ()
    confidence: str = "low"
    planned: bool | None = None
    avoidable: bool | None = None
    member: MemberName | None = None
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
        return AVOIDED_GLYPH if self.is_avoided else PLANNED_GLYPHS[self.planned]
