"""What a rebalance cost, what is known of its member, and what would tell more."""

from dataclasses import replace

import pytest

from ottla.history.processes import AssignmentDiff
from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.rounds.merging import by_clock, merge
from ottla.history.rounds.round import Membership, Round
from ottla.history.rounds.splitting import Part
from ottla.history.sources.evidence import Cause, CommitSpan, Kind, Source
from ottla.history.verdicts.cost import cost_of, figures_of, slowest_of, what_is_missing
from ottla.history.verdicts.verdict import Confidence, Cost, Narrowed
from ottla.protocol.model import TopicPartition
from tests.support.kit.evidence import EvidenceLog

DIFF = AssignmentDiff(assigned=10, moved=2, new=0, gone=1, regained=0, kept=7)

C = Cause


def a_round(protocol: str) -> Round:
    log = EvidenceLog()
    log.join("a", 1)
    log.rebalance(2)
    (each,) = merge("g", by_clock(log.lines))
    each.change, each.after = DIFF, Membership({}, protocol, None, True)
    return each


@pytest.mark.parametrize(("protocol", "stopped"), [("range", 10), ("cooperative-sticky", 3)])
def test_an_eager_assignor_stops_every_partition_for_the_time_of_the_rebalance(protocol: str, stopped: int) -> None:
    assert cost_of(a_round(protocol)) == Cost(stopped, stopped * 0.12, 2)


def test_messages_that_are_read_again() -> None:
    each, partition = a_round("range"), TopicPartition("t", 0)
    each.commits = {partition: CommitSpan(0, 9, 10, 90, 5)}
    each.commits_after = {partition: CommitSpan(20, 29, 70, 95, 5)}
    assert cost_of(each).reread_messages == 20


def test_messages_that_came_in_meanwhile_by_the_rate_of_commits() -> None:
    each = a_round("range")
    each.commits = {TopicPartition("t", 0): CommitSpan(0, 1_000, 0, 500, 5), TopicPartition("t", 1): CommitSpan(7, 7, 0, 0, 1)}
    assert cost_of(each).waiting_messages == 60


def test_the_slowest_member_gave_up_last_or_where_none_had_to_had_its_own_last() -> None:
    log = EvidenceLog()
    log.join("a", 1)
    log.rebalance(2)
    (each,) = merge("g", by_clock(log.lines))

    def slowest(**times: dict[str, int]) -> str:
        items = [log.add(Kind.MEMBER_RECONCILED, member_id=member, evidence=evidence) for member, evidence in times.items()]
        each.parts = [replace(each.parts[0], reconciled=items)]
        found = slowest_of(each)
        assert found is not None
        return found.member_id

    assert slowest(a={"reconciliation_ms": 5}, b={"reconciliation_ms": 9}, c={"reconciliation_ms": 7}) == "b"
    assert slowest(a={"reconciliation_ms": 5, "revocation_ms": 1}, b={"reconciliation_ms": 9}) == "a"


def test_nothing_known_costs_nothing_known() -> None:
    each = a_round("range")
    each.change = None
    assert cost_of(each) == Cost()
    each.is_avoided = True
    assert cost_of(each).stopped_partition_seconds == 0.0


def test_figures_of_a_lost_member_and_of_its_rebalance() -> None:
    log = EvidenceLog(Source.GROUP_EVENTS)
    log.expire("m1", 3, evidence={"last_heartbeat_age_ms": 6_100, "session_timeout_ms": 6_000, "rebalance_timeout_ms": 8_000})
    log.add(Kind.TRIGGER, 50, generation=3, coalesced=True, trigger="JOIN_NEW", member_id="m2")
    log.rebalance(4, count=2)
    (each,) = rounds_of_group("g", log.lines)
    assert figures_of(each, each.departures[0], None) == {
        "silent_ms": 6_100,
        "session_timeout_ms": 6_000,
        "max_poll_interval_ms": 8_000,
        "coalesced_triggers": 1,
    }


def test_a_return_has_the_figures_of_its_loss() -> None:
    log = EvidenceLog()
    log.leave("m1", 3, client_id="w")
    log.rebalance(4, count=1)
    log.join("m2", 4, after_ms=880, client_id="w")
    log.rebalance(5, count=2)
    each = rounds_of_group("g", log.lines)[1]
    assert figures_of(each, None, each.arrivals[0])["absence_ms"] == 1_000


def test_members_that_started_a_moment_too_late_are_counted() -> None:
    log = EvidenceLog()
    log.join("m1", 0)
    log.rebalance(1, count=1)
    log.join("m2", 1, after_ms=400)
    log.rebalance(2, count=2)
    first, second = rounds_of_group("g", log.lines)
    assert "late_starters" not in figures_of(first, None, first.arrivals[0])
    assert figures_of(second, None, second.arrivals[0])["late_starters"] == 1


def test_rebalances_that_were_missed_or_followed_are_counted() -> None:
    each = a_round("cooperative-sticky")
    each.skipped, each.follow_ups = 2, [a_round("cooperative-sticky")]
    assert figures_of(each, None, None) == {"generations_skipped": 2, "follow_up_count": 1}


@pytest.mark.parametrize(
    ("source", "candidates", "words"),
    [
        (Source.BROKER_LOG, (C.LEAVE_CLOSE, C.POLL_TIMEOUT), "--client-log"),
        (Source.OFFSETS_TOPIC, (C.EXPIRE_HEARTBEAT,), "--broker-log"),
        (Source.BROKER_LOG, (C.TOPIC_CHANGE, C.SUBSCRIPTION), "--offsets-topic"),
        (Source.OFFSETS_TOPIC, (C.TOPIC_CHANGE, C.SUBSCRIPTION), "debug=cgrp"),
        (Source.BROKER_LOG, (C.STATIC_REJOIN, C.STATIC_FENCED), "--client-log"),
        (Source.ADMIN, (C.UNKNOWN,), "--broker-log"),
        (Source.BROKER_LOG, (C.JOIN_NEW, C.COLD_START), None),
    ],
)
def test_the_log_or_setting_that_would_tell_the_candidates_apart(source: Source, candidates: tuple[Cause, ...], words: str | None) -> None:
    each = Round(group="g", generation=1, parts=[Part(clock="c", source=source)])
    shares = [(cause, 1 / len(candidates)) for cause in candidates]
    found = what_is_missing(each, Narrowed(shares, Confidence.MEDIUM, (), False))
    assert found is None if words is None else words in (found or "")


def test_a_sure_verdict_needs_nothing() -> None:
    each = Round(group="g", generation=1, parts=[])
    assert what_is_missing(each, Narrowed([(C.ADMIN, 1.0)], Confidence.HIGH, (), False)) is None
