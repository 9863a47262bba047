"""The figures behind a verdict, with their units in the names."""

from ottla.core.diagnosis.rounds.round import Arrival, Departure, Round
from ottla.core.diagnosis.verdicts.arrival_rules import COLD_START_MS

_PASSED_ON = frozenset(
    {
        "waited_ms",
        "group_size",
        "group_max_size",
        "group_size_max",
        "join_phase_ms",
        "sync_ms",
        "members_left",
        "poll_gap_ms",
    }
)


def figures_of(each: Round, departure: Departure | None, arrival: Arrival | None) -> dict[str, int]:
    """What is known of the member that caused the rebalance, and of the rebalance itself."""
    found: dict[str, int] = {}
    for item in each.items:
        found.update((name, figure) for name, figure in item.evidence.items() if name in _PASSED_ON)
    loss = departure if departure is not None else None if arrival is None else arrival.loss
    if loss is not None:
        found.update(_of_loss(loss))
    if each.count_before and each.arrivals and each.since_cold_start_ms is not None and each.since_cold_start_ms <= COLD_START_MS:
        found["late_starters"] = len(each.arrivals)
    if each.skipped:
        found["generations_skipped"] = each.skipped
    if each.follow_ups:
        found["follow_up_count"] = len(each.follow_ups)
    coalesced = sum(item.coalesced for item in each.parts[0].items) if each.parts else 0
    if coalesced:
        found["coalesced_triggers"] = coalesced
    return found


def _of_loss(loss: Departure) -> dict[str, int]:
    found = {
        "silent_ms": silence_ms(loss),
        "session_timeout_ms": loss.session_timeout_ms,
        "max_poll_interval_ms": loss.rebalance_timeout_ms,
        "last_commit_age_ms": loss.commit_gap_ms,
        "absence_ms": loss.returned_after_ms,
        "exceeded_by_ms": exceeded_by_ms(loss),
    }
    return {name: figure for name, figure in found.items() if figure is not None}


def silence_ms(loss: Departure) -> int | None:
    """How long the member sent no heartbeat before it was removed."""
    return loss.figures.get("last_heartbeat_age_ms")


def exceeded_by_ms(loss: Departure) -> int | None:
    """By how much the member exceeded its poll interval, as its own log says."""
    return next((item.evidence["exceeded_ms"] for item in loss.client_items if "exceeded_ms" in item.evidence), None)
