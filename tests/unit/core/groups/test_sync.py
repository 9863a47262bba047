"""SyncGroup beyond S3: the sync timer, and requests that are sent twice."""

from typing import Any

from ottla.core.errors import ErrorCode
from ottla.core.groups.states import GroupState

E = ErrorCode
SLOW = "session=5m rebalance=8s"


def two_members(driver: Any) -> Any:
    lines = (f"join g - new=m1 {SLOW}", f"join g m1 {SLOW}", "wait 0", "sync g m1 gen=1")
    return driver.given(*lines, f"join g - new=m2 {SLOW}", f"join g m2 {SLOW}", f"join g m1 {SLOW}")


def test_the_timer_ends_when_all_have_asked(driver: Any) -> None:
    two_members(driver).given("sync g m1 gen=2")
    assert driver.group().sync_timer.at_ms == 8_000
    driver.given("sync g m2 gen=2")
    assert driver.group().sync_timer.at_ms is None


def test_members_that_never_ask_are_given_up_in_a_stable_group_too(driver: Any) -> None:
    two_members(driver).given("sync g m1 gen=2")
    fired = driver.wait(8_000)
    assert [(event.trigger, event.member_id) for event in fired[0].events] == [("SYNC_TIMEOUT", "m2")]
    assert list(driver.group().members) == ["m1"]
    assert driver.group().state is GroupState.PREPARING_REBALANCE


def test_if_nobody_asks_the_group_is_empty(driver: Any) -> None:
    fired = [event for effects in two_members(driver).wait(8_000) for event in effects.events]
    assert [(event.kind, event.coalesced) for event in fired] == [("trigger", False), ("trigger", True), ("emptied", False)]
    assert driver.group().state is GroupState.EMPTY


def test_the_later_of_two_requests_is_the_one_that_waits(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    first = driver.requests
    assert [(reply.to, reply.result.error) for reply in driver.do("sync g m2 gen=2").replies] == [(first, E.REBALANCE_IN_PROGRESS)]
    told = {reply.to for reply in driver.do("sync g m1 gen=2").replies}
    assert told == {first + 1, first + 2}


def test_a_plan_for_strangers_is_ignored(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    record = driver.do("sync g m1 gen=2 plan=m1:flights/0;stranger:flights/1").records[0]
    assert [member.member_id for member in record.value.members] == ["m1", "m2"]


def test_the_record_keeps_when_the_join_phase_ended(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    driver.wait(1_000)
    driver.given("join g m1")
    driver.wait(500)
    assert driver.do("sync g m1 gen=2").records[0].value.current_state_timestamp_ms == 1_000
