"""SyncGroup: the order of checks and their errors, the assignment, the sync timer, repeated requests. Heartbeats."""

from typing import Any

import pytest

from ottla.coordinator.coordinator import Resign
from ottla.groups.classic.states import GroupState
from ottla.protocol.errors import ErrorCode
from trials.scenarios.commands import parse_command

E = ErrorCode
SLOW = "session=5m rebalance=8s"


def test_group_id_invalid(driver: Any) -> None:
    assert driver.error("sync '' m1 gen=1") is E.INVALID_GROUP_ID


def test_loading_answers_rebalance_in_progress(driver: Any) -> None:
    driver.shell.begin_loading()
    assert driver.error("sync g m1 gen=1") is E.REBALANCE_IN_PROGRESS
    assert driver.error("sync '' m1 gen=1") is E.INVALID_GROUP_ID


def test_wrong_coordinator(driver: Any) -> None:
    driver.in_state("Stable").run(Resign())
    assert driver.error("sync g m1 gen=2") is E.NOT_COORDINATOR


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("sync unknown m1 gen=1", E.UNKNOWN_MEMBER_ID),
        ("sync g m1 gen=2 instance=i9", E.UNKNOWN_MEMBER_ID),
        ("sync g m9 gen=9 type=connect", E.UNKNOWN_MEMBER_ID),
        ("sync g m1 gen=9 type=connect", E.ILLEGAL_GENERATION),
        ("sync g m1 gen=2 type=connect", E.INCONSISTENT_GROUP_PROTOCOL),
        ("sync g m1 gen=2 type=consumer name=sticky", E.INCONSISTENT_GROUP_PROTOCOL),
        ("sync g m1 gen=2 type=consumer name=range", E.NONE),
        ("sync g m1 gen=2", E.NONE),
    ],
)
def test_order_of_checks(driver: Any, line: str, error: ErrorCode) -> None:
    assert driver.in_state("Stable").error(line) is error


def test_dead_is_checked_before_the_member(driver: Any) -> None:
    driver.in_state("Stable").group().transition(GroupState.DEAD, 0)
    assert driver.error("sync g unknown gen=9 instance=i9") is E.COORDINATOR_NOT_AVAILABLE


def test_a_static_member_is_fenced_before_its_generation_is_checked(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1", "join g - new=s2 instance=i1")
    assert driver.error("sync g s1 gen=9 instance=i1") is E.FENCED_INSTANCE_ID


@pytest.mark.parametrize(
    ("state", "line", "error"),
    [
        ("Empty", "sync g m1 gen=2", E.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", "sync g m1 gen=1", E.REBALANCE_IN_PROGRESS),
        ("Stable", "sync g m2 gen=2", E.NONE),
    ],
)
def test_by_state(driver: Any, state: str, line: str, error: ErrorCode) -> None:
    assert driver.in_state(state).error(line) is error


def test_stable_answers_the_members_assignment_and_sets_its_deadline(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(4_000)
    assignment = driver.group().members["m2"].assignment
    assert driver.answer("sync g m2 gen=2").assignment == assignment
    assert driver.group().members["m2"].session.at_ms == 14_000


def test_followers_are_parked_and_then_get_their_own_part_alone(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    assert driver.error("sync g m2 gen=2") is None
    effects = driver.do("sync g m1 gen=2 assignment=m1:flights/0;m2:flights/1")
    parts = [reply.result.assignment for reply in effects.replies]
    assert parts == [driver.group().members["m1"].assignment, driver.group().members["m2"].assignment]
    assert parts[0] != parts[1]
    assert driver.group().state is GroupState.STABLE


def test_members_left_out_get_an_empty_assignment_with_a_warning(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    effects = driver.do("sync g m1 gen=2 assignment=m1:flights/0")
    assert [reply.result.assignment == b"" for reply in effects.replies] == [False, True]
    assert any(line.startswith("Setting empty assignments for members [m2]") for line in effects.log_lines)


def test_an_assignment_takes_effect_only_with_its_record(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    coordinator = driver.shell.coordinator
    effects = coordinator.handle(parse_command("sync g m1 gen=2 assignment=m1:flights/0;m2:flights/1", 99), now_ms=0)
    assert driver.group().state is GroupState.COMPLETING_REBALANCE
    coordinator.replay(effects.records[0])
    assert driver.group().state is GroupState.STABLE


def test_a_failed_append_clears_the_assignments_and_prepares_a_rebalance(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    driver.shell.fail_next_append = E.NOT_ENOUGH_REPLICAS
    effects = driver.do("sync g m1 gen=2 assignment=m1:flights/0;m2:flights/1")
    assert {reply.result.error for reply in effects.replies} == {E.COORDINATOR_NOT_AVAILABLE}
    assert len(effects.replies) == 2
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    assert [member.assignment for member in driver.group().members.values()] == [b"", b""]
    assert [event.trigger for event in effects.events] == ["STORE_ERROR"]


@pytest.mark.parametrize("kind", ["consumer", "connect"])
def test_both_protocol_types_work(driver: Any, kind: str) -> None:
    driver.given(f"join g - new=m1 type={kind}", f"join g m1 type={kind}", "wait 0")
    result = driver.answer(f"sync g m1 gen=1 type={kind} name=range assignment=m1:flights/0")
    assert (result.error, result.protocol_type, result.protocol_name) == (E.NONE, kind, "range")
    assert result.assignment


def two_members(driver: Any) -> Any:
    lines = (f"join g - new=m1 {SLOW}", f"join g m1 {SLOW}", "wait 0", "sync g m1 gen=1")
    return driver.given(*lines, f"join g - new=m2 {SLOW}", f"join g m2 {SLOW}", f"join g m1 {SLOW}")


def test_the_timer_is_cancelled_when_all_have_synced(driver: Any) -> None:
    two_members(driver).given("sync g m1 gen=2")
    assert driver.group().sync_timer.at_ms == 8_000
    driver.given("sync g m2 gen=2")
    assert driver.group().sync_timer.at_ms is None


def test_members_that_never_sync_are_removed_from_a_stable_group_too(driver: Any) -> None:
    two_members(driver).given("sync g m1 gen=2")
    fired = driver.wait(8_000)
    assert [(event.trigger, event.member_id) for event in fired[0].events] == [("SYNC_TIMEOUT", "m2")]
    assert list(driver.group().members) == ["m1"]
    assert driver.group().state is GroupState.PREPARING_REBALANCE


def test_if_no_member_syncs_the_group_is_empty(driver: Any) -> None:
    fired = [event for effects in two_members(driver).wait(8_000) for event in effects.events]
    assert [(event.kind, event.coalesced) for event in fired] == [("trigger", False), ("trigger", True), ("emptied", False)]
    assert driver.group().state is GroupState.EMPTY


def test_the_later_of_two_requests_stays_parked(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    first = driver.requests
    assert [(reply.to, reply.result.error) for reply in driver.do("sync g m2 gen=2").replies] == [(first, E.REBALANCE_IN_PROGRESS)]
    observed = {reply.to for reply in driver.do("sync g m1 gen=2").replies}
    assert observed == {first + 1, first + 2}


def test_an_assignment_for_unknown_members_is_ignored(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    record = driver.do("sync g m1 gen=2 assignment=m1:flights/0;unknown:flights/1").records[0]
    assert [member.member_id for member in record.value.members] == ["m1", "m2"]


def test_the_record_contains_the_end_of_the_join_phase(driver: Any) -> None:
    driver.in_state("PreparingRebalance")
    driver.wait(1_000)
    driver.given("join g m1")
    driver.wait(500)
    assert driver.do("sync g m1 gen=2").records[0].value.current_state_timestamp_ms == 1_000


# Heartbeats: which restart the session, and what they are answered.


@pytest.mark.parametrize(("state", "generation"), [("PreparingRebalance", 1), ("CompletingRebalance", 2), ("Stable", 2)])
def test_an_accepted_heartbeat_restarts_the_session(driver: Any, state: str, generation: int) -> None:
    driver.in_state(state)
    driver.wait(4_000)
    driver.given(f"heartbeat g m1 gen={generation}")
    assert driver.group().members["m1"].session.at_ms == 14_000


def test_a_heartbeat_of_another_generation_does_not(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(4_000)
    assert driver.error("heartbeat g m1 gen=1") is E.ILLEGAL_GENERATION
    assert driver.group().members["m1"].session.at_ms == 10_000


def test_a_heartbeat_is_answered_that_a_rebalance_is_in_progress(driver: Any) -> None:
    assert driver.in_state("PreparingRebalance").error("heartbeat g m1 gen=1") is E.REBALANCE_IN_PROGRESS
