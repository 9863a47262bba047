"""The verdict on one rebalance, and how rules lead to its cause: each that holds narrows the causes to those that its evidence allows.

A rule's weights say how its causes compare where it holds; a cause that it does not name is unlikely, and never excluded: what other
evidence says more strongly brings it back. Rules multiply. Where they exclude each other, sources disagree: the more informative ones
decide, and the confidence drops.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.history.processes import Identity
from ottla.history.rounds.splitting import SOURCE_RANK
from ottla.history.sources.evidence import Cause, Source
from ottla.history.verdicts.calibration import HIGH_SHARE, MEDIUM_SHARE

REBALANCE, AVOIDED, REFUSED = "rebalance", "avoided", "refused"


class Confidence(IntEnum):
    """How sure a verdict is, by thresholds that are fitted to recorded days. docs/diagnosis-accuracy.md: how often these are right."""

    LOW = 0
    MEDIUM = 1
    HIGH = 2


Weights = Mapping[Cause, float]
Subject = TypeVar("Subject")

CANDIDATE_SHARE: Final = 0.02
"""The share of all weights that a cause needs to be a candidate at all."""
CONFLICT_SHARE: Final = 0.01
"""Where the likeliest causes of two findings have less than this of each other's weight, the findings contradict each other."""
UNNAMED_SHARE: Final = 0.001
"""The weight of a cause that a rule does not name, as a share of the rule's greatest: evidence of something else may be mistaken."""
DISPUTE_SHARE: Final = 0.06
"""The same for what members' own logs say and what another source does, whose clocks and generations may not fit together: a cause that
one of them hardly allows is not certain because the other excludes all the rest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule(Generic[Subject]):
    """One signature. `condition` is for people, `holds` decides; `confidence` is the highest that a verdict on it alone may have."""

    name: str
    source: Source
    condition: str
    weights: Weights
    confidence: Confidence
    holds: Callable[[Subject], bool]


class Finding(NamedTuple):
    """What one rule, or one source by its own words, says."""

    name: str
    source: Source
    weights: Weights
    confidence: Confidence


class Narrowed(NamedTuple):
    """The causes that findings leave, the likeliest first, each with its share of the weights."""

    shares: Sequence[tuple[Cause, float]]
    confidence: Confidence
    rules: tuple[str, ...]
    has_conflict: bool

    @property
    def cause(self) -> Cause:
        """The likeliest cause."""
        return self.shares[0][0] if self.shares else Cause.UNKNOWN

    @property
    def share(self) -> float:
        """That of the likeliest cause."""
        return self.shares[0][1] if self.shares else 0.0

    @property
    def candidates(self) -> tuple[Cause, ...]:
        """The causes that cannot be told apart, the likeliest first."""
        return tuple(cause for cause, share in self.shares if share >= CANDIDATE_SHARE) or (self.cause,)


NOTHING: Final = Narrowed((), Confidence.LOW, (), has_conflict=False)


def findings_of(rules: Iterable[Rule[Any]], subject: object) -> list[Finding]:
    """What each rule that holds says."""
    return [Finding(rule.name, rule.source, rule.weights, rule.confidence) for rule in rules if rule.holds(subject)]


def narrow(findings: Iterable[Finding]) -> Narrowed:
    """Combine findings, those of the most informative source first."""
    weights: dict[Cause, float] = {}
    taken: list[Finding] = []
    confidence, has_conflict, is_disputed = Confidence.LOW, False, False
    for finding in sorted(findings, key=lambda finding: SOURCE_RANK[finding.source]):
        if not taken:
            weights = dict(finding.weights)
        else:
            narrowed = _product(weights, finding.weights)
            if max(narrowed.values(), default=0.0) < CONFLICT_SHARE * max(weights.values()) * max(finding.weights.values()):
                has_conflict = True
                continue
            others = [other for other in taken if _is_of_member(other) != _is_of_member(finding)]
            is_disputed = is_disputed or any(_agreement(other, finding) < DISPUTE_SHARE for other in others)
            if _is_of_member(finding) and any(other.confidence is Confidence.HIGH for other in others):
                is_disputed = is_disputed or _overturns(weights, narrowed)
            weights = narrowed
        taken.append(finding)
        confidence = max(confidence, finding.confidence)
    if not taken:
        return NOTHING
    total = sum(weights.values()) or 1.0
    shares = sorted(((cause, weight / total) for cause, weight in weights.items()), key=lambda pair: -pair[1])
    confidence = min(confidence, _confidence_of(shares[0][1]))
    if is_disputed and not has_conflict:
        confidence = min(confidence, Confidence.MEDIUM)
    return Narrowed(shares, Confidence(max(0, confidence - has_conflict)), tuple(finding.name for finding in taken), has_conflict)


def _product(one: Weights, other: Weights) -> dict[Cause, float]:
    """The weights of both together. A cause that only one of them names is left with little."""
    least_one, least_other = UNNAMED_SHARE * max(one.values()), UNNAMED_SHARE * max(other.values())
    causes = dict.fromkeys((*one, *other))
    return {cause: one.get(cause, least_one) * other.get(cause, least_other) for cause in causes}


def _is_of_member(finding: Finding) -> bool:
    return finding.source is Source.CLIENT_LOG


def _agreement(one: Finding, other: Finding) -> float:
    """How likely the cause that both allow most is in both together: 1 where it is the likeliest of each."""
    together = max((weight * other.weights[cause] for cause, weight in one.weights.items() if cause in other.weights), default=0.0)
    return together / (max(one.weights.values()) * max(other.weights.values()))


def _overturns(before: Weights, after: Weights) -> bool:
    """Whether the likeliest cause is another one than before, when it was rather sure."""
    likeliest = max(before, key=before.__getitem__)
    is_sure = before[likeliest] >= MEDIUM_SHARE * sum(before.values())
    return is_sure and after.get(likeliest, 0.0) < max(after.values())


def _confidence_of(share: float) -> Confidence:
    if share >= HIGH_SHARE:
        return Confidence.HIGH
    return Confidence.MEDIUM if share >= MEDIUM_SHARE else Confidence.LOW


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


class Reconciliation(NamedTuple):
    """KIP-848: how a member came to a target assignment. `name`: its instance id, else its client id, else its member id.

    revocation_ms: from the time at which it was asked to give up partitions until it had; None where it had to give up none.
    reconciliation_ms: from the target to all of its partitions; None where it did not come to that.
    """

    name: str
    member_id: str
    revocation_ms: int | None
    reconciliation_ms: int | None


class SettingAdvice(NamedTuple):
    """A setting by its Kafka name, the value that would have avoided the rebalance, why, and where that backfires."""

    setting: str
    value: str | None
    sentence: str
    warning: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One rebalance of one group, or one that did not happen: static membership avoided it, or a member was refused (the kind).

    generation: the one that it formed (KIP-848: the group epoch), None where none is known; generations: with those of its second half.
    started_ms and ended_ms are of `clock`; ended_ms is None where no assignment was stored. outcome: completed, emptied, superseded (the
    next one began before the assignment was stored), interrupted (the coordinator moved), open. planned, avoidable: None where that cannot
    be said. rebalance_class: 1 (a heartbeat came too late), 2 (processing took longer than the poll interval) or None. contributing: causes
    of triggers that came while it ran. who: the member that caused it. evidence: figures, units in their names. share: of the cause in all
    weights that the rules leave. slowest: KIP-848, the member that others waited for longest; None where no source shows how members come
    to their targets.
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
    share: float = 0.0
    slowest: Reconciliation | None = None

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
            "slowest": None if self.slowest is None else self.slowest._asdict(),
        }
