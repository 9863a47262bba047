"""What one consumer measures about its membership, and what becomes of it when the membership is lost."""

from ottla.core.client.group.evidence import LOG_LINES_MAX, Evidence
from ottla.core.client.group.explanations import Explanation
from ottla.core.client.group.stalls import Lateness
from ottla.core.client.group.values import GroupSettings
from ottla.core.reason_evidence import MemberCause

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
