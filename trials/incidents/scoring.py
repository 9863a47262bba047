"""Compares verdicts with labels: which are right, which name the truth among their candidates, what is taken for what, and the aims."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import Confidence, Verdict
from trials.incidents.corpus import Incident, LabelledRebalance

MISSED = "(none)"
CLOCK_MS = 100
"""The time of a line or record and that of the label may differ by as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scored:
    """One verdict beside its label; `found` is MISSED where a labelled rebalance has none. holds: the truth is among the candidates."""

    incident: Incident
    label: LabelledRebalance
    found: str
    confidence: str | None
    is_right: bool
    holds: bool
    is_policy_right: bool
    verdict: Verdict | None = None

    @property
    def is_high(self) -> bool:
        """Whether the verdict says that its cause is certain."""
        return self.confidence == Confidence.HIGH.name.lower()


def score(incident: Incident, verdicts: Sequence[Verdict]) -> list[Scored]:
    """One for each verdict at the time of a label, and one for each labelled rebalance that has none."""
    scored: list[Scored] = []
    for label in incident.rebalances:
        scored += _score_label(incident, label, [each for each in verdicts if _is_at(each, label)])
    return scored


def unexplained(incident: Incident, verdicts: Sequence[Verdict]) -> int:
    """How many verdicts are of no label's time, before the incident's end: rebalances that were not caused, or verdicts at a wrong time."""
    return sum(
        1 for each in verdicts if each.started_ms <= incident.end_ms and not any(_is_at(each, label) for label in incident.rebalances)
    )


def _is_at(verdict: Verdict, label: LabelledRebalance) -> bool:
    if label.from_ms - CLOCK_MS <= verdict.started_ms <= label.to_ms:
        return True
    return verdict.started_ms < label.from_ms and verdict.ended_ms is not None and label.from_ms <= verdict.ended_ms <= label.to_ms


def _score_label(incident: Incident, label: LabelledRebalance, verdicts: Sequence[Verdict]) -> list[Scored]:
    """Scores the verdicts of one label's time.

    The label's own cause must be found, else its first verdict is wrong; further ones may have the causes of `also` as well. While a group
    is set up, any of them is right.
    """
    if not verdicts:
        missed = Scored(incident=incident, label=label, found=MISSED, confidence=None, is_right=False, holds=False, is_policy_right=False)
        return [missed] if label.is_certain else []
    wanted = {Cause(label.cause)} if label.is_action else _right_causes(label)
    is_found = any(each.cause in wanted for each in verdicts)
    holds = any(not wanted.isdisjoint(_candidates(each)) for each in verdicts)
    if not is_found:
        verdicts = verdicts[:1]
    return [
        Scored(
            incident=incident,
            label=label,
            found=each.cause.value,
            confidence=each.confidence.name.lower(),
            is_right=is_found and each.cause in _right_causes(label),
            holds=holds and (not is_found or not _candidates(each).isdisjoint(_right_causes(label))),
            is_policy_right=each.planned in (None, label.planned),
            verdict=each,
        )
        for each in verdicts
    ]


def _right_causes(label: LabelledRebalance) -> set[Cause]:
    return {Cause(label.cause), *map(Cause, label.also)}


def _candidates(verdict: Verdict) -> set[Cause]:
    return {verdict.cause, *verdict.candidates}


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """How often verdicts are right: shares of `count`; None where there is none. high_right: of those that say that they are certain."""

    count: int
    right: float | None
    holds: float | None
    high: int
    high_right: float | None
    planned_right: float | None
    missed: int


def figures(scored: Iterable[Scored]) -> Figures:
    """The figures of these."""
    everything = list(scored)
    high = [each for each in everything if each.is_high]
    return Figures(
        count=len(everything),
        right=_share([each.is_right for each in everything]),
        holds=_share([each.holds for each in everything]),
        high=len(high),
        high_right=_share([each.is_right for each in high]),
        planned_right=_share([each.is_policy_right for each in everything if each.verdict is not None]),
        missed=sum(each.found == MISSED for each in everything),
    )


def _share(outcomes: Sequence[bool]) -> float | None:
    return sum(outcomes) / len(outcomes) if outcomes else None


def confusion(scored: Iterable[Scored]) -> dict[str, Counter[str]]:
    """For each true cause how often which cause was found; a right one of `also` counts for its own row."""
    rows: dict[str, Counter[str]] = {}
    for each in scored:
        truth = each.found if each.is_right else each.label.cause
        rows.setdefault(truth, Counter())[each.found] += 1
    return rows


def is_said_by_broker_log(incident: Incident, label: LabelledRebalance) -> bool:
    """Whether the broker's log alone can tell this cause from others, by what Apache Kafka 4.3.0 was seen to log.

    It cannot where a client sends no reason (all but Java's, and every client on KIP-848): close, unsubscribe and poll timeout are one
    LeaveGroup; a changed subscription or topic, a needless rejoin and a cooperative second half are one JoinGroup. Nor can it tell a
    process that comes back after it was frozen from one that was started again, a static restart from fencing, or a changed assignor from
    a restart.
    """
    is_java = incident.clients[incident.actor] == "java"
    has_reasons = is_java and incident.protocol == "classic"
    all_java = has_reasons and set(incident.clients) == {"java"}
    if label.cause in (Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC):
        return has_reasons and incident.action != "kill_and_restart"
    if label.cause in (Cause.SUBSCRIPTION, Cause.LEADER_REJOIN_SPURIOUS):
        return has_reasons
    if label.cause == Cause.TOPIC_CHANGE:
        return all_java
    if label.cause in (Cause.STATIC_REJOIN, Cause.STATIC_FENCED):
        return incident.protocol == "consumer"
    if label.cause == Cause.ASSIGNOR_CHANGE:
        return incident.action == "change_assignor_static"
    if label.cause in (Cause.EXPIRE_HEARTBEAT, Cause.JOIN_TIMEOUT):
        return label is next(each for each in incident.rebalances if each.cause == label.cause)
    return label.cause != Cause.COORDINATOR_MOVE


Choice = Callable[[Scored], bool]


class Aim(NamedTuple):
    """A share that should be reached with one set of sources, of the verdicts that `chosen` holds for."""

    name: str
    sources: str
    figure: str
    wanted: float
    chosen: Choice


def _caused(scored: Scored) -> bool:
    return scored.label.is_action


def _told(scored: Scored) -> bool:
    return _caused(scored) and is_said_by_broker_log(scored.incident, scored.label)


def _not_told(scored: Scored) -> bool:
    return _caused(scored) and not is_said_by_broker_log(scored.incident, scored.label)


def _any(_scored: Scored) -> bool:
    return True


AIMS: Final = (
    Aim("own events: right", "own events", "right", 0.99, _caused),
    Aim("broker log, where it can tell: right", "broker log", "right", 0.95, _told),
    Aim("broker log, where it cannot: the cause is among the candidates", "broker log", "holds", 0.99, _not_told),
    Aim("offsets topic: right", "offsets topic", "right", 0.80, _caused),
    Aim("broker log + client logs: right", "broker log + client logs", "right", 0.97, _caused),
    Aim("all sources: right of those that say high", "all", "high_right", 0.95, _any),
    Aim("broker log: right of those that say high", "broker log", "high_right", 0.95, _any),
    Aim("offsets topic: right of those that say high", "offsets topic", "high_right", 0.95, _any),
    Aim("client logs: right of those that say high", "client logs", "high_right", 0.95, _any),
)


class Reached(NamedTuple):
    """What was measured for an aim; None where there is nothing to measure it on."""

    aim: Aim
    share: float | None
    total: int

    @property
    def is_met(self) -> bool:
        """Whether the aim is reached."""
        return self.share is None or self.share >= self.aim.wanted


def reached(measured: Iterable[tuple[str, Sequence[Scored]]]) -> list[Reached]:
    """Each aim with what was measured, from the verdicts of each set of sources."""
    by_sources = dict(measured)
    found = []
    for aim in AIMS:
        chosen = figures(each for each in by_sources.get(aim.sources, ()) if aim.chosen(each))
        count = chosen.high if aim.figure == "high_right" else chosen.count
        found.append(Reached(aim, getattr(chosen, aim.figure), count))
    return found
