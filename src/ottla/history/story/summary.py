"""What the top of a page says: how many rebalances were not planned, who caused them at what cost, and which belong together in time."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.sentences import counted, duration
from ottla.history.verdicts.verdict import SettingAdvice

_ADVICE_MAX: Final = 20


@dataclass(slots=True)
class Blame:
    """What one process set off without a plan: rebalances, and the partition-seconds that stopped in them. row None: not known who."""

    row: int | None
    name: str
    rebalances: int = 0
    stopped_seconds: float = 0.0
    advice: dict[str, SettingAdvice] = field(default_factory=dict)


def blames(rebalances: Sequence[StoryRebalance], rows: Sequence[int | None], names: Sequence[str]) -> list[Blame]:
    """Who caused unplanned rebalances, the most expensive first. `rows`: the process of each rebalance's member."""
    found: dict[int | str | None, Blame] = {}
    for rebalance, row in zip(rebalances, rows, strict=True):
        if rebalance.planned is not False or rebalance.is_avoided:
            continue
        name = names[row] if row is not None else rebalance.member.label if rebalance.member else "an unknown member"
        blame = found.setdefault(name if row is None else row, Blame(row, name))
        blame.rebalances += 1
        blame.stopped_seconds += rebalance.stopped_seconds
        for advice in rebalance.advice:
            blame.advice[advice.setting] = greater(advice, blame.advice.get(advice.setting))
    return sorted(found.values(), key=lambda each: (-each.stopped_seconds, -each.rebalances, each.name))


def headline(rebalances: Sequence[StoryRebalance], ledger: Sequence[Blame]) -> str:
    """The sentence at the top."""
    happened = [each for each in rebalances if not each.is_avoided]
    avoided = len(rebalances) - len(happened)
    if not happened:
        return _with_avoided("The evidence holds no rebalance of this group.", avoided)
    unplanned = sum(each.planned is False for each in happened)
    if not unplanned:
        unknown = sum(each.planned is None for each in happened)
        judged = "none of them is known to be unplanned" if unknown else "all of them planned"
        return _with_avoided(f"{counted(len(happened), 'rebalance')}, {judged}.", avoided)
    text = f"{unplanned:,} of {counted(len(happened), 'rebalance')} {'was' if unplanned == 1 else 'were'} not planned"
    worst = ledger[0]
    text += f"; {worst.name} caused {worst.rebalances:,} of them" if unplanned > 1 else f"; {worst.name} caused it"
    if worst.stopped_seconds >= 1:
        text += f" and stopped {worst.stopped_seconds:,.0f} partition-seconds"
    return _with_avoided(f"{text}.", avoided)


class AdviceSum(NamedTuple):
    """One setting: the greatest value that any rebalance asked for, how many it would have avoided, and their partition-seconds."""

    advice: SettingAdvice
    rebalances: int
    stopped_seconds: float


def advice_of(rebalances: Sequence[StoryRebalance]) -> list[AdviceSum]:
    """Each setting that would have avoided rebalances, the most useful first."""
    found: dict[str, AdviceSum] = {}
    for rebalance in rebalances:
        for advice in rebalance.advice:
            before = found.get(advice.setting, AdviceSum(advice, 0, 0.0))
            seconds = before.stopped_seconds + rebalance.stopped_seconds
            found[advice.setting] = AdviceSum(greater(advice, before.advice), before.rebalances + 1, seconds)
    ordered = sorted(found.values(), key=lambda each: (-each.stopped_seconds, -each.rebalances, each.advice.setting))
    return ordered[:_ADVICE_MAX]


def greater(advice: SettingAdvice, other: SettingAdvice | None) -> SettingAdvice:
    """The advice with the greater value, if both are numbers; a value is better than none."""
    if other is None or other.value is None:
        return advice
    if advice.value is None or not (advice.value.isdecimal() and other.value.isdecimal()):
        return other
    return max(other, advice, key=lambda each: int(each.value or 0))


def _with_avoided(text: str, avoided: int) -> str:
    return f"{text} Static membership avoided {counted(avoided, 'rebalance')}." if avoided else text


GAP_MS: Final = 120_000
"""A rebalance that begins later than this after the end of the one before it begins another burst."""
REBALANCES_MIN: Final = 3


class DeploymentSpan(NamedTuple):
    """A rolling deployment: how many clients and rebalances, and the partition-seconds that stopped, where known."""

    from_ms: int
    to_ms: int
    clients: int
    rebalances: int
    stopped_seconds: float | None


@dataclass(frozen=True, slots=True)
class Burst:
    """Rebalances of the story that follow each other closely, or a deployment."""

    from_ms: int
    to_ms: int
    unplanned: int
    is_deployment: bool
    sentence: str


def bursts(rebalances: Sequence[StoryRebalance], deployments: Sequence[DeploymentSpan] = ()) -> list[Burst]:
    """The deployments, and the bursts among rebalances in the order in which they began.

    A burst that holds every rebalance, or none that is outside of deployments, says nothing new.
    """
    found, first = [_deployment(each) for each in deployments], 0
    for at in range(1, len(rebalances) + 1):
        if at == len(rebalances) or rebalances[at].started_ms - rebalances[at - 1].ended_ms > GAP_MS:
            cluster = rebalances[first:at]
            if REBALANCES_MIN <= len(cluster) < len(rebalances) and not _is_covered(cluster, deployments):
                found.append(_burst(cluster))
            first = at
    return sorted(found, key=lambda each: each.from_ms)


def _is_covered(cluster: Sequence[StoryRebalance], deployments: Sequence[DeploymentSpan]) -> bool:
    return any(each.from_ms <= cluster[0].started_ms and cluster[-1].started_ms <= each.to_ms for each in deployments)


def _burst(rebalances: Sequence[StoryRebalance]) -> Burst:
    from_ms, to_ms = rebalances[0].started_ms, max(each.ended_ms for each in rebalances)
    unplanned = sum(each.planned is False and not each.is_avoided for each in rebalances)
    happened = sum(not each.is_avoided for each in rebalances)
    text = f"A burst: {counted(happened, 'rebalance')} in {duration(to_ms - from_ms)}"
    if unplanned:
        text += f", {unplanned} of them not planned"
    return Burst(from_ms, to_ms, unplanned, False, f"{text}{_cost(sum(each.stopped_seconds for each in rebalances))}.")


def _deployment(span: DeploymentSpan) -> Burst:
    text = f"A rolling deployment of {counted(span.clients, 'client')}: {counted(span.rebalances, 'rebalance')}"
    text += f" in {duration(span.to_ms - span.from_ms)}{_cost(span.stopped_seconds)}."
    return Burst(span.from_ms, span.to_ms, 0, True, text)


def _cost(seconds: float | None) -> str:
    return f", {seconds:,.0f} partition-seconds stopped" if seconds else ""
