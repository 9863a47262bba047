"""Finds rebalances that belong together in time, and says what each burst and each rolling deployment cost."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ottla.core.diagnosis.story.rebalance import StoryRebalance
from ottla.core.diagnosis.story.words import counted, duration

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
