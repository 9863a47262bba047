"""Values of group membership."""

import pytest

from ottla.client.membership.values import TRANSITIONS, FindCoordinator, GroupSettings, MemberState


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testJoinGroupRequestTimeout",
    "AbstractCoordinatorTest.testJoinGroupRequestTimeoutLowerBoundedByDefaultRequestTimeout",
    "AbstractCoordinatorTest.testJoinGroupRequestMaxTimeout",
)
def test_a_join_may_take_as_long_as_the_rebalance() -> None:
    assert GroupSettings(group_id="g", max_poll_interval_ms=300_000).join_timeout_ms == 305_000
    assert GroupSettings(group_id="g", max_poll_interval_ms=10_000, request_timeout_ms=30_000).join_timeout_ms == 30_000


def test_two_requests_are_never_the_same() -> None:
    assert FindCoordinator("g") != FindCoordinator("g"), "each has its own response"


def test_the_rebalance_timeout_is_the_poll_interval_unless_it_is_set() -> None:
    assert GroupSettings(group_id="g", max_poll_interval_ms=7_000).longest_rebalance_ms == 7_000
    assert GroupSettings(group_id="g", max_poll_interval_ms=7_000, rebalance_timeout_ms=0).longest_rebalance_ms == 0


def test_every_state_has_its_exits_and_can_be_reached() -> None:
    assert TRANSITIONS.keys() == set(MemberState)
    assert set().union(*TRANSITIONS.values()) == set(MemberState)


def test_every_state_falls_back_to_unjoined() -> None:
    assert all(MemberState.UNJOINED in after for state, after in TRANSITIONS.items() if state is not MemberState.UNJOINED)


@pytest.mark.conformance("AbstractCoordinatorTest.testHeartbeatSentWhenCompletingRebalance")
def test_heartbeats_are_sent_when_the_group_has_answered() -> None:
    assert [state for state in MemberState if state.sends_heartbeats] == [MemberState.COMPLETING_REBALANCE, MemberState.STABLE]
