"""The states of a member: every state can be left, and those that the coordinator expects heartbeats in are named."""

import pytest

from ottla.core.client.group.states import TRANSITIONS, MemberState


def test_every_state_has_its_exits_and_can_be_reached() -> None:
    assert TRANSITIONS.keys() == set(MemberState)
    assert set().union(*TRANSITIONS.values()) == set(MemberState)


def test_every_state_falls_back_to_unjoined() -> None:
    assert all(MemberState.UNJOINED in after for state, after in TRANSITIONS.items() if state is not MemberState.UNJOINED)


@pytest.mark.conformance("AbstractCoordinatorTest.testHeartbeatSentWhenCompletingRebalance")
def test_heartbeats_are_sent_when_the_group_has_answered() -> None:
    assert [state for state in MemberState if state.sends_heartbeats] == [MemberState.COMPLETING_REBALANCE, MemberState.STABLE]
