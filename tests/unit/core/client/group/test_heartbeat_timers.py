"""Timers of a member: heartbeat, session, polls (Kafka: HeartbeatTest)."""

import pytest

from ottla.core.client.group.heartbeat_timers import HeartbeatTimers
from ottla.core.client.group.values import GroupSettings

SETTINGS = GroupSettings(group_id="g", session_timeout_ms=6_000, heartbeat_interval_ms=2_000, max_poll_interval_ms=20_000)


@pytest.mark.conformance("HeartbeatTest.testShouldHeartbeat", "HeartbeatTest.testShouldNotHeartbeat")
def test_a_heartbeat_is_due_after_its_interval_and_once() -> None:
    timers = HeartbeatTimers(SETTINGS, 0)
    assert not timers.is_due(1_999)
    assert timers.is_due(2_000)
    timers.sent(2_000)
    assert not timers.is_due(4_000), "one is in flight"
    timers.succeeded(4_500)
    assert timers.is_due(4_500), "the interval counts from when it was sent"


def test_a_failed_heartbeat_is_repeated_after_a_back_off() -> None:
    timers = HeartbeatTimers(SETTINGS, 0)
    timers.sent(2_000)
    timers.failed(2_010, 0.5)
    assert not timers.is_due(2_100)
    assert timers.is_due(2_110)
    timers.sent(2_110)
    timers.failed(2_120, 0.5)
    assert timers.next_ms() == 2_320, "the back-off doubles"


@pytest.mark.conformance("HeartbeatTest.testSessionTimeoutExpired", "HeartbeatTest.testResetSession")
def test_a_session_ends_without_an_answer() -> None:
    timers = HeartbeatTimers(SETTINGS, 0)
    assert not timers.is_session_over(5_999)
    assert timers.is_session_over(6_000)
    timers.reset_session(6_000)
    assert not timers.is_session_over(11_999)


@pytest.mark.conformance("HeartbeatTest.testPollTimeout")
def test_polls_reset_their_own_timer_alone() -> None:
    timers = HeartbeatTimers(SETTINGS, 0)
    timers.poll(10_000)
    assert timers.is_session_over(10_000)
    assert not timers.is_poll_over(29_999)
    assert timers.is_poll_over(30_000)


@pytest.mark.conformance("HeartbeatTest.testTimeToNextHeartbeat", "HeartbeatTest.testResetTimeouts")
def test_the_next_time_is_that_of_the_first_timer() -> None:
    timers = HeartbeatTimers(SETTINGS, 0)
    assert timers.next_ms() == 2_000
    timers.sent(2_000)
    assert timers.next_ms() == 6_000
    timers.reset(7_000)
    assert timers.next_ms() == 9_000
