"""What a rebalance cost: partitions that stood still, for how long, and messages that are read again."""

from typing import Final

from ottla.core.diagnosis.rounds.round import Round
from ottla.core.diagnosis.verdicts.verdict import Cost

COOPERATIVE: Final = frozenset({"cooperative-sticky", "uniform"})
"""Assignors under which only partitions that move stand still; all of KIP-848 is so."""


def cost_of(each: Round) -> Cost:
    """The cost, as far as assignments and commits show it. With an eager assignor every partition stands still."""
    if each.is_avoided:
        return Cost(stopped_partitions=0, stopped_partition_seconds=0.0, moved_partitions=0)
    diff, duration_ms = each.diff, _duration_ms(each)
    stopped = moved = None
    if diff is not None:
        moved = diff.moved + diff.regained
        is_cooperative = each.is_consumer_type or (each.after is not None and each.after.protocol in COOPERATIVE)
        stopped = diff.moved + diff.regained + diff.gone if is_cooperative else diff.moved + diff.kept + diff.gone
        for follow_up in each.follow_ups:
            moved += 0 if follow_up.diff is None else follow_up.diff.regained
    seconds = None if stopped is None or duration_ms is None else round(stopped * duration_ms / 1000, 3)
    return Cost(stopped, seconds, moved, _waiting(each, duration_ms), _reread(each))


def _duration_ms(each: Round) -> int | None:
    return None if each.ended_ms is None else max(0, each.ended_ms - each.started_ms)


def _waiting(each: Round, duration_ms: int | None) -> int | None:
    """Messages that came in meanwhile, by the rate of the commits before: a group that keeps up commits as fast as messages come."""
    rates = [
        (span.last_offset - span.first_offset) / (span.last_ms - span.first_ms)
        for span in each.commits.values()
        if span.last_ms > span.first_ms and span.last_offset >= span.first_offset
    ]
    return round(sum(rates) * duration_ms) if rates and duration_ms is not None else None


def _reread(each: Round) -> int | None:
    """Messages between the first commit after the rebalance and the last one before it, where that is the lower one."""
    common = each.commits.keys() & each.commits_after.keys()
    if not common:
        return None
    return sum(max(0, each.commits[partition].last_offset - each.commits_after[partition].first_offset) for partition in common)
