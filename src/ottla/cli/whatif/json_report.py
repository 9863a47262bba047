"""A prediction as one JSON-ready object (docs/whatif.md)."""

from typing import Any

from ottla.core.whatif.behaviour import GroupBehaviour
from ottla.core.whatif.outcome import Outcome, ReplayedRebalance, causes
from ottla.core.whatif.prediction import Prediction


def to_dict(prediction: Prediction) -> dict[str, Any]:
    """The object; `before`, `after` and `rebalances` with settings, `front` and `best` with a search."""
    behaviour, agreed = prediction.behaviour, prediction.agreement
    found: dict[str, Any] = {
        "group": behaviour.group,
        "started_ms": behaviour.started_ms,
        "ended_ms": behaviour.ended_ms,
        "processes": len(behaviour.processes),
        "assignor": behaviour.protocol,
        "recorded_rebalances": agreed.recorded,
        "reproduced_rebalances": agreed.reproduced,
        "extra_rebalances": len(agreed.extra_ms),
        "notes": list(behaviour.notes),
    }
    comparison = prediction.comparison
    if comparison is not None:
        gone, new = set(map(id, comparison.gone)), set(map(id, comparison.new))
        fates = [(each, "gone" if id(each) in gone else "stays") for each in comparison.before.rebalances]
        fates += [(each, "new") for each in comparison.after.rebalances if id(each) in new]
        found |= {
            "settings": comparison.settings.texts(),
            "before": _outcome(behaviour, comparison.before),
            "after": _outcome(behaviour, comparison.after),
            "rebalances": [_rebalance(each, fate) for each, fate in sorted(fates, key=lambda row: row[0].at_ms)],
            "warnings": list(comparison.warnings),
        }
    if prediction.search is not None:
        options = [
            {"settings": option.settings.texts(), "is_enough": option.is_enough, **_outcome(behaviour, option.outcome)}
            for option in prediction.search.front
        ]
        found |= {
            "tried": prediction.search.tried,
            "front": options,
            "best": next((option for option in options if option["is_enough"]), None),
        }
    return found


def _outcome(behaviour: GroupBehaviour, outcome: Outcome) -> dict[str, Any]:
    is_known = bool(behaviour.partition_counts)
    return {
        "rebalances": len(outcome.rebalances),
        "generations": outcome.generations,
        "planned": outcome.planned,
        "unplanned": outcome.unplanned,
        "unplanned_per_hour": round(outcome.unplanned / behaviour.hours, 3),
        "avoided": len(outcome.avoided),
        "causes": causes(outcome.rebalances),
        "moved_partitions": outcome.moved if is_known else None,
        "rebalancing_partition_ms": outcome.stopped_ms if is_known else None,
        "waiting_partition_ms": outcome.waiting_ms if is_known else None,
    }


def _rebalance(each: ReplayedRebalance, after: str) -> dict[str, Any]:
    return {
        "at_ms": each.at_ms,
        "cause": each.cause.value,
        "process": each.process or None,
        "planned": each.planned,
        "follow_ups": each.follow_ups,
        "moved_partitions": each.moved,
        "after": after,
    }
