"""The figures of a verdict: what the rebalance cost, what is known of the member that caused it, and what would tell more."""

from typing import Final

from ottla.history.rounds.round import Arrival, Departure, Round
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.arrival_rules import COLD_START_MS
from ottla.history.verdicts.verdict import Confidence, Cost, Narrowed, Reconciliation

COOPERATIVE: Final = frozenset({"cooperative-sticky", "uniform"})
"""Assignors under which only partitions that move stand still; all of KIP-848 is so."""


def cost_of(rebalance: Round) -> Cost:
    """The cost, as far as assignments and commits show it. With an eager assignor every partition stands still."""
    if rebalance.is_avoided:
        return Cost(stopped_partitions=0, stopped_partition_seconds=0.0, moved_partitions=0)
    diff, duration_ms = rebalance.diff, _duration_ms(rebalance)
    stopped = moved = None
    if diff is not None:
        moved = diff.all_moved
        is_cooperative = rebalance.is_consumer_type or (rebalance.after is not None and rebalance.after.protocol in COOPERATIVE)
        stopped = diff.moved + diff.regained + diff.gone if is_cooperative else diff.moved + diff.kept + diff.gone
        for follow_up in rebalance.follow_ups:
            moved += 0 if follow_up.diff is None else follow_up.diff.all_moved
    seconds = None if stopped is None or duration_ms is None else round(stopped * duration_ms / 1000, 3)
    return Cost(stopped, seconds, moved, _waiting(rebalance, duration_ms), _reread(rebalance))


def reconciliations(rebalance: Round) -> tuple[Reconciliation, ...]:
    """KIP-848: the members whose partitions changed, in the order in which they came to the target."""
    members = {} if rebalance.after is None else rebalance.after.members
    found: dict[str, Reconciliation] = {}
    for item in rebalance.reconciled:
        member_id = item.member_id or ""
        client_id = item.client_id or (members[member_id].client_id if member_id in members else "")
        before = found.pop(member_id, None)
        found[member_id] = Reconciliation(
            name=item.instance_id or client_id or member_id,
            member_id=member_id,
            revocation_ms=item.evidence.get("revocation_ms", None if before is None else before.revocation_ms),
            reconciliation_ms=item.evidence.get("reconciliation_ms"),
        )
    return tuple(found.values())


def slowest_of(rebalance: Round) -> Reconciliation | None:
    """The member that took longest to give up partitions; where none had to, the last one that had its own."""
    return max(reconciliations(rebalance), key=lambda each: (each.revocation_ms or 0, each.reconciliation_ms or 0), default=None)


def _duration_ms(rebalance: Round) -> int | None:
    own = [item.at_ms for item in rebalance.reconciled if item.clock == rebalance.clock]
    if own:
        return max(own) - rebalance.started_ms  # partitions wait until the last member has its own
    return None if rebalance.ended_ms is None else max(0, rebalance.ended_ms - rebalance.started_ms)


def _waiting(rebalance: Round, duration_ms: int | None) -> int | None:
    """Messages that came in meanwhile, by the rate of the commits before: a group that keeps up commits as fast as messages come."""
    rates = [
        (span.last_offset - span.first_offset) / (span.last_ms - span.first_ms)
        for span in rebalance.commits.values()
        if span.last_ms > span.first_ms and span.last_offset >= span.first_offset
    ]
    return round(sum(rates) * duration_ms) if rates and duration_ms is not None else None


def _reread(rebalance: Round) -> int | None:
    """Messages between the first commit after the rebalance and the last one before it, where that is the lower one."""
    common = rebalance.commits.keys() & rebalance.commits_after.keys()
    if not common:
        return None
    return sum(max(0, rebalance.commits[partition].last_offset - rebalance.commits_after[partition].first_offset) for partition in common)


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


def figures_of(rebalance: Round, departure: Departure | None, arrival: Arrival | None) -> dict[str, int]:
    """What is known of the member that caused the rebalance, and of the rebalance itself."""
    found: dict[str, int] = {}
    for item in rebalance.items:
        found.update((name, figure) for name, figure in item.evidence.items() if name in _PASSED_ON)
    loss = departure if departure is not None else None if arrival is None else arrival.loss
    if loss is not None:
        found.update(_of_loss(loss))
    if (
        rebalance.count_before
        and rebalance.arrivals
        and rebalance.since_cold_start_ms is not None
        and rebalance.since_cold_start_ms <= COLD_START_MS
    ):
        found["late_starters"] = len(rebalance.arrivals)
    if rebalance.skipped:
        found["generations_skipped"] = rebalance.skipped
    if rebalance.follow_ups:
        found["follow_up_count"] = len(rebalance.follow_ups)
    coalesced = sum(item.coalesced for item in rebalance.parts[0].items) if rebalance.parts else 0
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


_LOSS: Final = frozenset({Cause.LEAVE_CLOSE, Cause.POLL_TIMEOUT, Cause.RESTART_DYNAMIC, Cause.EXPIRE_HEARTBEAT, Cause.JOIN_TIMEOUT})
_CHANGE: Final = frozenset({Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS, Cause.ENFORCED})


def what_is_missing(rebalance: Round, narrowed: Narrowed) -> str | None:
    """One sentence, or None where the verdict is sure or nothing would help."""
    if narrowed.confidence is Confidence.HIGH and len(narrowed.candidates) == 1:
        return None
    sources = {part.source for part in rebalance.parts} | {item.source for item in rebalance.client_items}
    candidates = frozenset(narrowed.candidates)
    if len(candidates & _LOSS) > 1 and "client-log" not in sources:
        return (
            "The log of the member distinguishes a close, a restart and a poll timeout (--client-log); "
            "Java's members give the broker a reason, too."
        )
    if candidates & _LOSS and not sources & {"broker-log", "group-events"}:
        return "The coordinator's log says whether the member left or its session expired (--broker-log)."
    if len(candidates & _CHANGE) > 1 and "offsets-topic" not in sources and "group-events" not in sources:
        return "The offsets topic shows what changed in subscriptions and assignments (ottla watch, or --offsets-topic)."
    if len(candidates & _CHANGE) > 1 and "client-log" not in sources:
        return "The log of the member says why it joined again (--client-log; librdkafka: debug=cgrp)."
    if {Cause.STATIC_REJOIN, Cause.STATIC_FENCED} <= candidates:
        return "The logs of the processes with this instance id say whether one was fenced (--client-log)."
    if narrowed.cause is Cause.UNKNOWN:
        return "The coordinator's log, or group events of an Ottla broker, name the trigger (--broker-log)."
    return None
