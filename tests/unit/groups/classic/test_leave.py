"""Members that go: LeaveGroup, by members and by administrators, and sessions that end."""

from typing import Any

from ottla.groups.classic.states import GroupState
from ottla.protocol.errors import ErrorCode

E = ErrorCode


def test_each_leaving_member_is_answered_for_itself(driver: Any) -> None:
    driver.in_state("Stable").given("join g - new=m3")
    result = driver.answer("leave g m2 unknown m3")
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


def test_an_empty_identity_removes_no_member(driver: Any) -> None:
    driver.in_state("Stable")
    assert driver.answer("leave g instance=i9").members[0].error is E.UNKNOWN_MEMBER_ID
    assert driver.answer("leave g ''").members[0].error is E.UNKNOWN_MEMBER_ID
    assert len(driver.group().members) == 2


def test_an_id_that_leaves_an_empty_group_starts_no_rebalance(driver: Any) -> None:
    effects = driver.in_state("Empty").given("join g - new=m9").do("leave g m9")
    assert effects.replies[0].result.members[0].error is E.NONE
    assert effects.events == ()
    assert driver.group().state is GroupState.EMPTY


def test_leaving_an_unknown_group(driver: Any) -> None:
    result = driver.answer("leave unknown m1")
    assert (result.error, result.members[0].error) == (E.NONE, E.UNKNOWN_MEMBER_ID)


def test_the_port_of_the_connection_is_evidence(driver: Any) -> None:
    driver.in_state("Stable")
    left = driver.do("leave g m2 port=40001").events[0]
    (joined,) = driver.given("join g - new=m4").do("join g m4 port=40002").events
    assert (left.evidence["client_port"], joined.trigger, joined.evidence["client_port"]) == (40001, "JOIN_NEW", 40002)
    assert "client_port" not in driver.do("leave g m1").events[0].evidence


# Sessions: who is lost at their end, and who is alive without a heartbeat.


def test_no_request_for_a_session_timeout_loses_the_member(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(9_999)
    assert len(driver.group().members) == 2
    driver.given("heartbeat g m1 gen=2")
    driver.wait(1)
    assert list(driver.group().members) == ["m1"]
    assert driver.group().state is GroupState.PREPARING_REBALANCE


def test_a_parked_member_is_alive(driver: Any) -> None:
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


def test_an_id_that_never_joins_expires(driver: Any) -> None:
    driver.in_state("PreparingRebalance").given("join g - new=m3 session=6s", "join g m1")
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    driver.wait(6_000)
    assert driver.group().state is GroupState.COMPLETING_REBALANCE
