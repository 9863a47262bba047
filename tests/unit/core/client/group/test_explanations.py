"""Why a member lost its membership: each cause has its own measurements, words and advice."""

from typing import Any

import pytest

from ottla.core.client.group.explanations import (
    Explanation,
    Measurements,
    explain_late_poll,
    explain_next_poll,
    explain_removal,
    explain_silence,
    explain_stall,
)
from ottla.core.client.group.values import GroupSettings
from ottla.core.reason_evidence import MemberCause, evidence_in, with_evidence

SETTINGS = GroupSettings(group_id="g", session_timeout_ms=6_000, heartbeat_interval_ms=2_000, max_poll_interval_ms=6_000)
STALLS = (MemberCause.GARBAGE_COLLECTION, MemberCause.GIL_HELD, MemberCause.STOPPED, MemberCause.THREAD_LATE)


def measured(**values: Any) -> Measurements:
    return Measurements(settings=SETTINGS, **values)


def removal(**values: Any) -> Explanation:
    return explain_removal(measured(**values), "UNKNOWN_MEMBER_ID", "HEARTBEAT")


def test_a_slow_batch_while_it_is_processed_and_afterwards() -> None:
    leaving = explain_late_poll(measured(since_poll_ms=6_001.2, batch_records=412, record_ms=10.0))
    assert leaving.sentence == (
        "consumer poll timeout has expired. It leaves the group: no poll for 6001 ms, max.poll.interval.ms is 6000; "
        "slow processing: 412 records need at least 14.6 ms each; "
        "set max.poll.records to 200, or set max.poll.interval.ms to 10000"
    )
    assert leaving.evidence == "slow processing: no poll for 6001 ms, 412 records at 14.6 ms each"
    back = explain_next_poll(measured(since_poll_ms=9_229, batch_records=412))
    assert back.why == "412 records took 22.4 ms each"
    assert back.advice == "set max.poll.records to 100, or set max.poll.interval.ms to 20000"


def test_what_earlier_records_took_is_known_before_a_slow_batch_ends() -> None:
    leaving = explain_late_poll(measured(since_poll_ms=6_000, batch_records=1_000, record_ms=50.0))
    assert leaving.why == "1000 records need at least 50.0 ms each"
    assert leaving.advice == "set max.poll.records to 60, or set max.poll.interval.ms to 80000"


def test_a_single_record_is_not_divided() -> None:
    late = explain_next_poll(measured(since_poll_ms=7_000, batch_records=1, record_ms=5_000))
    assert late.cause is MemberCause.SLOW_PROCESSING
    assert late.advice == "set max.poll.interval.ms to 20000"
    assert late.why == "1 record took 7000 ms"
    assert explain_late_poll(measured(since_poll_ms=6_000, batch_records=1)).why == "1 record needs at least 6000 ms"


@pytest.mark.parametrize(("records", "record_ms"), [(0, None), (0, 14.0), (1, 14.0), (20, 14.0), (500, 0.001)])
def test_a_blocked_application(records: int, record_ms: float | None) -> None:
    late = explain_late_poll(measured(since_poll_ms=6_000, batch_records=records, record_ms=record_ms))
    assert late.cause is MemberCause.BLOCKED
    assert "max.poll.interval.ms to 9000" in late.advice


@pytest.mark.parametrize("cause", STALLS)
def test_stalls_explain_late_polls_and_missing_heartbeats(cause: MemberCause) -> None:
    stalls = {cause: 5_000.0, MemberCause.NETWORK: 1.0}
    late = explain_late_poll(measured(since_poll_ms=6_500, batch_records=412, stalls=stalls))
    silent = explain_silence(measured(since_heartbeat_ms=7_000, stalls=stalls))
    removed = removal(since_heartbeat_ms=7_000, stalls=stalls)
    near = explain_stall(SETTINGS, cause, 2_500)
    assert {late.cause, silent.cause, removed.cause, near.cause} == {cause}
    assert silent.short == removed.short == "5000 of 7000 ms without a heartbeat"
    assert "session.timeout.ms to 20000" in removed.advice
    assert near.event == "sent no heartbeat for 2500 ms, session.timeout.ms is 6000"


def test_a_stall_that_is_too_short_explains_nothing() -> None:
    assert removal(since_heartbeat_ms=7_000, stalls={MemberCause.STOPPED: 2_000}).cause is MemberCause.NETWORK


def test_a_network_that_carries_nothing_and_a_coordinator_that_does_not_answer() -> None:
    cut = explain_silence(measured(since_heartbeat_ms=6_000, since_response_ms=5_900, failure="no answer from broker a:1 in time"))
    assert cut.sentence == (
        "looks for the coordinator: no heartbeat was answered for 6000 ms, session.timeout.ms is 6000; network: the consumer ran in time, "
        "and no broker answered anything for 5900 ms (no answer from broker a:1 in time); "
        "check the network to the coordinator, or set session.timeout.ms to 9000"
    )
    hung = removal(since_heartbeat_ms=6_000, since_response_ms=100)
    assert hung.cause is MemberCause.NETWORK
    assert "other requests were answered" in hung.why


def test_a_rebalance_that_waited_for_the_application() -> None:
    late = removal(since_heartbeat_ms=100, since_poll_ms=8_000, rejoin_due_ms=6_100, batch_records=4, stalls={MemberCause.STOPPED: 90.0})
    assert late.cause is MemberCause.SLOW_PROCESSING
    assert "a rebalance waited 6100 ms for the next poll" in late.sentence
    assert late.evidence == "slow processing: a rebalance waited 6100 ms for the next poll, 4 records at 2000 ms each"


def test_nothing_measured_is_no_evidence() -> None:
    other = removal(since_heartbeat_ms=1_900)
    assert other.cause is MemberCause.UNKNOWN
    assert other.evidence == ""
    assert "an administrator may have removed the member" in other.sentence


def test_advice_stays_within_what_brokers_allow() -> None:
    assert "session.timeout.ms to 1800000" in removal(since_heartbeat_ms=10_000_000).advice


def test_evidence_is_read_back_from_a_reason() -> None:
    late = explain_late_poll(measured(since_poll_ms=6_000, batch_records=412))
    assert evidence_in(with_evidence("consumer poll timeout has expired.", late.evidence)) is MemberCause.SLOW_PROCESSING
