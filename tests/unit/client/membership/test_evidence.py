"""What one consumer measures about its membership, and what becomes of it when the membership is lost."""

from math import isnan
from typing import Any

import pytest

from ottla.client.membership.evidence import (
    LOG_LINES_MAX,
    STALLS_MAX,
    Evidence,
    Explanation,
    Lateness,
    Measurements,
    PollMeter,
    StallHistory,
    explain_late_poll,
    explain_next_poll,
    explain_removal,
    explain_silence,
    explain_stall,
    stall_cause,
)
from ottla.client.membership.values import GroupSettings
from ottla.groups.reason_evidence import MemberCause, evidence_in, with_evidence

SETTINGS = GroupSettings(group_id="g", session_timeout_ms=6_000, heartbeat_interval_ms=2_000, max_poll_interval_ms=20_000)
STOP = Lateness(late_ms=5_000, gc_ms=0, own_cpu_ms=0, process_cpu_ms=0, switches=0)


def last(evidence: Evidence) -> Explanation:
    line = evidence.log_lines[-1]
    assert isinstance(line, Explanation)
    return line


def cause_of(evidence: Evidence) -> MemberCause:
    return last(evidence).cause


def test_a_stall_since_the_last_heartbeat_is_the_cause() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.heartbeat_answered(1_000, is_rejoin_due=False)
    evidence.stalled(STOP, 7_200)
    assert last(evidence).event == "sent no heartbeat for 5000 ms, session.timeout.ms is 6000"
    evidence.session_over(7_200)
    assert evidence.text == "process stopped: 5000 of 6200 ms without a heartbeat"
    evidence.removed("UNKNOWN_MEMBER_ID", "HEARTBEAT", "Generation{}", 7_000, 7_300)
    assert cause_of(evidence) is MemberCause.STOPPED


def test_a_stall_before_the_last_heartbeat_is_not() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.stalled(STOP, 6_000)
    evidence.heartbeat_answered(6_100, is_rejoin_due=False)
    evidence.removed("UNKNOWN_MEMBER_ID", "HEARTBEAT", "Generation{}", 0, 12_200)
    assert cause_of(evidence) is MemberCause.NETWORK


def test_a_heartbeat_that_is_answered_before_a_stall_counts_from_when_it_was_sent() -> None:
    """The response waited in the socket: the coordinator has expected the next heartbeat since it got that one."""
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.heartbeat_sent(1_000, 1_000)
    evidence.stalled(STOP._replace(late_ms=6_500), 8_000)
    evidence.heartbeat_answered(8_000, is_rejoin_due=False)
    evidence.removed("UNKNOWN_MEMBER_ID", "HEARTBEAT", "Generation{}", 8_000, 8_010)
    assert cause_of(evidence) is MemberCause.STOPPED


def test_a_heartbeat_of_before_a_rebalance_counts_for_nothing() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.heartbeat_sent(1_000, 1_000)
    evidence.joined("Generation{}", 20_000)
    evidence.heartbeat_answered(20_010, is_rejoin_due=False)
    evidence.removed("UNKNOWN_MEMBER_ID", "HEARTBEAT", "Generation{}", 20_000, 21_000)
    assert cause_of(evidence) is MemberCause.UNKNOWN


def test_short_stalls_are_not_kept() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.stalled(STOP._replace(late_ms=49), 100)
    assert evidence.stall_times.count == 0
    evidence.stalled(STOP._replace(late_ms=51), 200)
    assert evidence.stall_times.count == 1
    assert not evidence.log_lines


def test_an_event_loop_that_was_blocked_for_a_heartbeat_interval_is_said_at_once() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.stalled(STOP._replace(late_ms=1_999, is_loop=False), 3_000)
    evidence.stalled(STOP._replace(late_ms=1_999, is_loop=True), 3_000)
    assert not evidence.log_lines, "it is less than a third of the session"
    evidence.stalled(STOP._replace(late_ms=2_000, is_loop=True), 6_000)
    assert "asyncio.to_thread" in evidence.log_lines[0].sentence


def test_the_brokers_longest_silence_ends_with_the_response_that_removes_the_member() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.heartbeat_answered(1_000, is_rejoin_due=False)
    evidence.responded(1_500)
    evidence.failure = "lost broker"
    evidence.responded(9_000)
    evidence.removed("UNKNOWN_MEMBER_ID", "HEARTBEAT", "Generation{}", 9_000, 9_000)
    assert last(evidence).why == "the consumer ran in time, and no broker answered anything for 7500 ms (lost broker)"


def test_a_rebalance_waits_for_the_application_from_the_first_heartbeat_that_says_so() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.polls.began(0)
    evidence.polls.took(4)
    evidence.polls.ended(0)
    for now_ms in (2_000, 4_000, 6_000):
        evidence.heartbeat_answered(now_ms, is_rejoin_due=True)
    evidence.removed("UNKNOWN_MEMBER_ID", "HEARTBEAT", "Generation{}", 0, 8_000)
    assert evidence.text == "slow processing: a rebalance waited 6000 ms for the next poll, 4 records at 2000 ms each"
    evidence.joined("Generation{}", 9_000)
    evidence.assigned("Generation{}")
    assert evidence.text == ""


def test_an_application_that_has_prepared_is_not_waited_for() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.heartbeat_answered(2_000, is_rejoin_due=True)
    evidence.prepared()
    evidence.joining(2_100)
    evidence.removed("UNKNOWN_MEMBER_ID", "JOIN_GROUP", "Generation{}", 2_100, 60_000)
    assert cause_of(evidence) is MemberCause.UNKNOWN, "the coordinator held the JoinGroup"


def test_heartbeats_are_late_by_what_passed_since_they_were_due() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    evidence.heartbeat_sent(1_000, 1_250)
    evidence.heartbeat_sent(3_000, 2_999)
    assert evidence.heartbeat_delays.maximum(3_000) == 250
    assert evidence.heartbeat_delays.total == 250
    assert evidence.heartbeat_sent_ms == 2_999


def test_explanations_that_no_one_logs_are_bounded() -> None:
    evidence = Evidence(SETTINGS, now_ms=0)
    for _ in range(LOG_LINES_MAX + 1):
        evidence.session_over(6_000)
    assert len(evidence.log_lines) == LOG_LINES_MAX


def test_two_polls_and_the_records_in_between() -> None:
    polls = PollMeter(0)
    assert polls.began_ms is None
    assert polls.record_ms(0) is None
    assert isnan(polls.idle_ratio(0))
    polls.began(1_000)
    polls.took(4)
    polls.took(6)
    polls.ended(1_100)
    polls.began(1_400)
    assert polls.record_ms(1_400) == 30
    assert polls.intervals.maximum(1_400) == 400
    assert polls.idle_ratio(1_400) == 100 / 400
    assert (polls.began_ms, polls.batch_records) == (1_400, 10)


def test_waiting_in_one_poll_is_no_further_poll() -> None:
    polls = PollMeter(0)
    for now_ms in (0, 500, 1_000):
        polls.began(now_ms)
    polls.ended(1_000)
    polls.began(1_000)
    assert polls.intervals.count == 1
    assert polls.intervals.total == 1_000
    assert polls.idle_ratio(1_000) == 1


def test_polls_without_records_do_not_count_as_processing() -> None:
    polls = PollMeter(0)
    polls.began(0)
    polls.took(2)
    polls.ended(0)
    polls.began(40)
    polls.ended(40)
    polls.began(10_000)
    assert polls.record_ms(10_000) == 20


def test_records_that_were_taken_one_at_a_time_count_for_the_poll_before() -> None:
    polls = PollMeter(0)
    polls.began(0)
    polls.took(1)
    polls.ended(0)
    polls.took(9)
    assert polls.batch_records == 1, "the last poll handed out one"
    polls.began(100)
    assert polls.record_ms(100) == 10


STOPPED = Lateness(late_ms=1_000, gc_ms=0, own_cpu_ms=1, process_cpu_ms=2, switches=1)


@pytest.mark.parametrize(
    ("late", "cause"),
    [
        (STOPPED, MemberCause.STOPPED),
        (STOPPED._replace(gc_ms=900, process_cpu_ms=900, switches=190), MemberCause.GARBAGE_COLLECTION),
        (STOPPED._replace(gc_ms=100, switches=190), MemberCause.GIL_HELD),
        (STOPPED._replace(switches=25), MemberCause.GIL_HELD),
        (STOPPED._replace(switches=25, process_cpu_ms=990), MemberCause.GIL_HELD),
        (STOPPED._replace(switches=24), MemberCause.STOPPED),
        (STOPPED._replace(switches=24, switch_interval_ms=50), MemberCause.GIL_HELD),
        (STOPPED._replace(process_cpu_ms=990), MemberCause.THREAD_LATE),
        (STOPPED._replace(own_cpu_ms=600, process_cpu_ms=600), MemberCause.THREAD_LATE),
        (STOPPED._replace(switches=None), MemberCause.STOPPED),
        (STOPPED._replace(is_loop=True), MemberCause.LOOP_BLOCKED),
        (STOPPED._replace(is_loop=True, gc_ms=900), MemberCause.GARBAGE_COLLECTION),
        (STOPPED._replace(switches=None, process_cpu_ms=990), MemberCause.GIL_HELD),
    ],
)
def test_causes(late: Lateness, cause: MemberCause) -> None:
    assert stall_cause(late) is cause


def test_a_history_sums_what_came_after_a_time() -> None:
    history = StallHistory()
    assert history.add(STOPPED, 2_000) is MemberCause.STOPPED
    history.add(STOPPED._replace(gc_ms=500, late_ms=500), 3_000)
    assert history.since(0) == {MemberCause.STOPPED: 1_000, MemberCause.GARBAGE_COLLECTION: 500}
    assert history.since(1_600) == {MemberCause.STOPPED: 400, MemberCause.GARBAGE_COLLECTION: 500}
    assert history.since(3_000) == {}
    assert history.total_ms == history.since(0)


def test_a_history_is_bounded_and_its_totals_are_not_lost() -> None:
    history = StallHistory()
    for number in range(STALLS_MAX + 5):
        history.add(STOPPED, 1_000 * (number + 1))
    assert sum(history.since(0).values()) == STALLS_MAX * 1_000
    assert history.total_ms[MemberCause.STOPPED] == (STALLS_MAX + 5) * 1_000


EXPLAINED = GroupSettings(group_id="g", session_timeout_ms=6_000, heartbeat_interval_ms=2_000, max_poll_interval_ms=6_000)
STALLS = (MemberCause.GARBAGE_COLLECTION, MemberCause.GIL_HELD, MemberCause.STOPPED, MemberCause.THREAD_LATE)


def measured(**values: Any) -> Measurements:
    return Measurements(settings=EXPLAINED, **values)


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


def test_many_records_that_took_no_time_before_may_take_some() -> None:
    """Below a tenth of a millisecond each, what they took before says little."""
    assert explain_late_poll(measured(since_poll_ms=6_000, batch_records=6_001, record_ms=0.0)).cause is MemberCause.SLOW_PROCESSING


def test_no_number_of_records_is_advised_where_a_single_one_takes_too_long() -> None:
    assert "max.poll.records" not in explain_late_poll(measured(since_poll_ms=8_000, batch_records=2)).advice


@pytest.mark.parametrize("cause", STALLS)
def test_stalls_explain_late_polls_and_missing_heartbeats(cause: MemberCause) -> None:
    stalls = {cause: 5_000.0, MemberCause.NETWORK: 1.0}
    late = explain_late_poll(measured(since_poll_ms=6_500, batch_records=412, stalls=stalls))
    silent = explain_silence(measured(since_heartbeat_ms=7_000, stalls=stalls))
    removed = removal(since_heartbeat_ms=7_000, stalls=stalls)
    near = explain_stall(EXPLAINED, cause, 2_500)
    assert {late.cause, silent.cause, removed.cause, near.cause} == {cause}
    assert silent.short == removed.short == "5000 of 7000 ms without a heartbeat"
    assert "session.timeout.ms to 20000" in removed.advice
    assert near.event == "sent no heartbeat for 2500 ms, session.timeout.ms is 6000"
    assert near.advice
    assert "session.timeout.ms" not in near.advice, "the silence fits into the session"


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
