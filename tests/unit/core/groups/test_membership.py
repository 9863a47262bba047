"""Heartbeat, LeaveGroup, sessions."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.states import GroupState

E = ErrorCode


@pytest.mark.parametrize(("state", "generation"), [("PreparingRebalance", 1), ("CompletingRebalance", 2), ("Stable", 2)])
def test_every_heartbeat_in_order_starts_the_session_anew(driver: Any, state: str, generation: int) -> None:
    driver.in_state(state)
    driver.wait(4_000)
    driver.given(f"heartbeat g m1 gen={generation}")
    assert driver.group().members["m1"].session.at_ms == 14_000


def test_a_heartbeat_of_another_generation_does_not(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(4_000)
    assert driver.error("heartbeat g m1 gen=1") is E.ILLEGAL_GENERATION
    assert driver.group().members["m1"].session.at_ms == 10_000


def test_s0_5_a_heartbeat_says_that_a_rebalance_began(driver: Any) -> None:
    assert driver.in_state("PreparingRebalance").error("heartbeat g m1 gen=1") is E.REBALANCE_IN_PROGRESS


def test_s2_8_silence_of_a_session_timeout_loses_the_member(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(9_999)
    assert len(driver.group().members) == 2
    driver.given("heartbeat g m1 gen=2")
    driver.wait(1)
    assert list(driver.group().members) == ["m1"]
    assert driver.group().state is GroupState.PREPARING_REBALANCE


def test_who_waits_is_alive(driver: Any) -> None:
    driver.in_state("Stable").given("join g - new=m3 old=yes", "join g m2")
    driver.wait(5_000)
    driver.given("heartbeat g m1 gen=2")
    driver.wait(5_000)
    assert "m2" in driver.group().members
    driver.given("join g m1", "sync g m2 gen=3")
    driver.wait(9_000)
    driver.given("heartbeat g m1 gen=3", "heartbeat g m3 gen=3")
    driver.wait(5_000)
    assert "m2" in driver.group().members


def test_an_id_that_nobody_joins_with_runs_out(driver: Any) -> None:
    driver.in_state("PreparingRebalance").given("join g - new=m3 session=6s", "join g m1")
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    driver.wait(6_000)
    assert driver.group().state is GroupState.COMPLETING_REBALANCE


def test_each_leaving_member_is_answered_for_itself(driver: Any) -> None:
    driver.in_state("Stable").given("join g - new=m3")
    result = driver.answer("leave g m2 nobody m3")
    assert result.error is E.NONE
    assert [line.error for line in result.members] == [E.NONE, E.UNKNOWN_MEMBER_ID, E.NONE]


def test_an_administrator_removes_an_instance_without_knowing_the_member(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1")
    effects = driver.do("leave g instance=i1")
    assert effects.replies[0].result.members[0].error is E.NONE
    assert effects.replies[0].result.members[0].member_id == ""
    assert effects.events[0].trigger == "ADMIN_REMOVE"
    assert effects.events[0].reason == "explicit `LeaveGroup` request for () members."
    assert driver.group().state is GroupState.EMPTY


def test_nobody_is_removed_by_an_empty_identity(driver: Any) -> None:
    driver.in_state("Stable")
    assert driver.answer("leave g instance=i9").members[0].error is E.UNKNOWN_MEMBER_ID
    assert driver.answer("leave g ''").members[0].error is E.UNKNOWN_MEMBER_ID
    assert len(driver.group().members) == 2


def test_an_id_that_leaves_an_empty_group_starts_no_round(driver: Any) -> None:
    effects = driver.in_state("Empty").given("join g - new=m9").do("leave g m9")
    assert effects.replies[0].result.members[0].error is E.NONE
    assert effects.events == ()
    assert driver.group().state is GroupState.EMPTY


def test_leaving_a_group_that_nobody_knows(driver: Any) -> None:
    result = driver.answer("leave nobody m1")
    assert (result.error, result.members[0].error) == (E.NONE, E.UNKNOWN_MEMBER_ID)
