"""The verdict on one rebalance: why it happened, how sure that is, what it cost, and what would have avoided it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.history.rounds.identity import Identity
from ottla.history.sources.cause_codes import Cause
from ottla.history.verdicts.rule import Confidence

REBALANCE, AVOIDED = "rebalance", "avoided"


class Cost(NamedTuple):
    """What a rebalance cost; None where the evidence does not say.

    stopped_partitions stood still for stopped_partition_seconds in all. `moved_partitions` have another owner now. `waiting_messages`:
    those that came in meanwhile, by the rate of the commits before. `reread_messages`: committed again after the rebalance from an offset
    before the last one.
    """

    stopped_partitions: int | None = None
    stopped_partition_seconds: float | None = None
    moved_partitions: int | None = None
    waiting_messages: int | None = None
    reread_messages: int | None = None


class SettingAdvice(NamedTuple):
    """A setting by its Kafka name, the value that would have avoided the rebalance, why, and where that backfires."""

    setting: str
    value: str | None
    sentence: str
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rebalance of one group, or (kind `avoided`) one that static membership avoided.

    generation: the one that it formed (KIP-848: the group epoch), None where none is known; generations: with those of its second half.
    started_ms and ended_ms are of `clock`; ended_ms is None where no assignment was stored. outcome: completed, emptied, superseded (the
    next one began before the assignment was stored), interrupted (the coordinator moved), open. planned, avoidable: None where that cannot
    be said. rebalance_class: 1 (a heartbeat came too late), 2 (processing took longer than the poll interval) or None. contributing: causes
    of triggers that came while it ran. who: the member that caused it. evidence: figures, units in their names.
    """

    group: str
    generation: int | None
    started_ms: int
    ended_ms: int | None
    kind: str
    cause: Cause
    candidates: tuple[Cause, ...]
    confidence: Confidence
    planned: bool | None
    avoidable: bool | None
    rebalance_class: int | None = None
    outcome: str = "completed"
    generations: tuple[int, ...] = ()
    members_before: int | None = None
    members_after: int | None = None
    who: Identity | None = None
    contributing: tuple[Cause, ...] = ()
    evidence: Mapping[str, int] = field(default_factory=dict)
    cost: Cost = field(default_factory=Cost)
    advice: tuple[SettingAdvice, ...] = ()
    sharper: str | None = None
    sources: tuple[str, ...] = ()
    rules: tuple[str, ...] = ()
    clock: str = ""

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready values (docs/diagnose.md)."""
        return {
            "group": self.group,
            "generation": self.generation,
            "generations": list(self.generations),
            "started_ms": self.started_ms,
            "ended_ms": self.ended_ms,
            "kind": self.kind,
            "outcome": self.outcome,
            "cause": self.cause.value,
            "candidates": [cause.value for cause in self.candidates],
            "confidence": self.confidence.name.lower(),
            "planned": self.planned,
            "avoidable": self.avoidable,
            "class": self.rebalance_class,
            "members_before": self.members_before,
            "members_after": self.members_after,
            "who": None if self.who is None else self.who._asdict(),
            "contributing": [cause.value for cause in self.contributing],
            "evidence": dict(self.evidence),
            "cost": self.cost._asdict(),
            "advice": [advice._asdict() for advice in self.advice],
            "sharper": self.sharper,
            "sources": list(self.sources),
            "rules": list(self.rules),
            "clock": self.clock,
        }
