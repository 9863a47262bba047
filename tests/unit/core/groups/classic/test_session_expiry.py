"""Sessions: who is lost at their end, and who is alive without a heartbeat."""

from typing import Any

from ottla.core.groups.classic.states import GroupState


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
