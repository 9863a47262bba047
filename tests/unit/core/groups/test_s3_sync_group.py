"""S3, SyncGroup step by step: the order of checks, and what each answers. Each row has a scenario file, too."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import Resign
from ottla.core.groups.states import GroupState
from ottla.testing.scenario_commands import parse_command

E = ErrorCode


def test_s3_1_group_id_invalid(driver: Any) -> None:
    assert driver.error("sync '' m1 gen=1") is E.INVALID_GROUP_ID


def test_s3_1_loading_answers_rebalance_in_progress(driver: Any) -> None:
    driver.shell.begin_loading()
    assert driver.error("sync g m1 gen=1") is E.REBALANCE_IN_PROGRESS
    assert driver.error("sync '' m1 gen=1") is E.INVALID_GROUP_ID


def test_s3_1_wrong_coordinator(driver: Any) -> None:
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
def test_s3_2_order_of_checks(driver: Any, line: str, error: ErrorCode) -> None:
    assert driver.in_state("Stable").error(line) is error


def test_s3_2_dead_comes_before_everything_about_the_member(driver: Any) -> None:
    driver.in_state("Stable").group().transition(GroupState.DEAD, 0)
    assert driver.error("sync g nobody gen=9 instance=i9") is E.COORDINATOR_NOT_AVAILABLE


def test_s3_2_a_fenced_static_member_is_told_so_before_its_generation_is_looked_at(driver: Any) -> None:
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
def test_s3_3_by_state(driver: Any, state: str, line: str, error: ErrorCode) -> None:
    assert driver.in_state(state).error(line) is error


def test_s3_3_stable_answers_the_members_assignment_and_sets_its_deadline(driver: Any) -> None:
    driver.in_state("Stable")
    driver.wait(4_000)
    plan = driver.group().members["m2"].assignment
    assert driver.answer("sync g m2 gen=2").assignment == plan
    assert driver.group().members["m2"].session.at_ms == 14_000


def test_s3_4_followers_are_parked_and_then_get_their_own_part_alone(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    assert driver.error("sync g m2 gen=2") is None
    effects = driver.do("sync g m1 gen=2 plan=m1:flights/0;m2:flights/1")
    parts = [reply.result.assignment for reply in effects.replies]
    assert parts == [driver.group().members["m1"].assignment, driver.group().members["m2"].assignment]
    assert parts[0] != parts[1]
    assert driver.group().state is GroupState.STABLE


def test_s3_4_members_left_out_get_an_empty_assignment_with_a_warning(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    effects = driver.do("sync g m1 gen=2 plan=m1:flights/0")
    assert [reply.result.assignment == b"" for reply in effects.replies] == [False, True]
    assert any(line.startswith("Setting empty assignments for members [m2]") for line in effects.log_lines)


def test_s3_4_the_plan_takes_effect_only_with_its_record(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    coordinator = driver.shell.coordinator
    effects = coordinator.handle(parse_command("sync g m1 gen=2 plan=m1:flights/0;m2:flights/1", 99), now_ms=0)
    assert driver.group().state is GroupState.COMPLETING_REBALANCE
    coordinator.replay(effects.records[0])
    assert driver.group().state is GroupState.STABLE


def test_s3_4_a_failed_store_clears_the_plan_and_prepares_a_new_round(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    driver.shell.fail_next_append = E.NOT_ENOUGH_REPLICAS
    effects = driver.do("sync g m1 gen=2 plan=m1:flights/0;m2:flights/1")
    assert {reply.result.error for reply in effects.replies} == {E.COORDINATOR_NOT_AVAILABLE}
    assert len(effects.replies) == 2
    assert driver.group().state is GroupState.PREPARING_REBALANCE
    assert [member.assignment for member in driver.group().members.values()] == [b"", b""]
    assert [event.trigger for event in effects.events] == ["STORE_ERROR"]


@pytest.mark.parametrize("kind", ["consumer", "connect"])
def test_s3_both_protocol_types_work(driver: Any, kind: str) -> None:
    driver.given(f"join g - new=m1 type={kind}", f"join g m1 type={kind}", "wait 0")
    result = driver.answer(f"sync g m1 gen=1 type={kind} name=range plan=m1:flights/0")
    assert (result.error, result.protocol_type, result.protocol_name) == (E.NONE, kind, "range")
    assert result.assignment
