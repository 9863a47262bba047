"""Who may commit offsets to a classic group, and whose session a commit restarts."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.states import GroupState

E = ErrorCode


@pytest.fixture
def with_static(driver: Any) -> Any:
    """Group g is Stable at generation 1; its only member s1 holds instance i1."""
    return driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1")


@pytest.mark.parametrize(
    ("commit", "error"),
    [
        ("s1 gen=1 instance=i1", E.NONE),
        ("instance=i1", E.FENCED_INSTANCE_ID),
        ("instance=i9", E.UNKNOWN_MEMBER_ID),
        ("gen=1 instance=i1", E.FENCED_INSTANCE_ID),
        ("s0 gen=1 instance=i1", E.FENCED_INSTANCE_ID),
        ("s0 gen=9 instance=i1", E.FENCED_INSTANCE_ID),
        ("s1 gen=9 instance=i1", E.ILLEGAL_GENERATION),
        ("", E.UNKNOWN_MEMBER_ID),
    ],
)
def test_an_instance_id_is_checked_before_the_generation_also_without_a_member_id(with_static: Any, commit: str, error: ErrorCode) -> None:
    assert with_static.error(f"commit g {commit} flights/0=1") is error


def test_a_commit_with_an_instance_id_alone_is_accepted_by_an_empty_group(with_static: Any) -> None:
    with_static.given("leave g s1")
    assert with_static.error("commit g instance=i1 flights/0=1") is E.NONE


@pytest.mark.parametrize(("state", "deadline_ms"), [("Stable", 14_000), ("PreparingRebalance", 14_000), ("CompletingRebalance", 10_000)])
def test_an_accepted_commit_restarts_the_session(driver: Any, state: str, deadline_ms: int) -> None:
    member = driver.in_state(state).group().members["m1"]
    driver.now_ms = 4_000
    driver.do(f"commit g m1 gen={driver.group().generation} flights/0=1")
    assert member.session.at_ms == deadline_ms


def test_a_refused_commit_does_not(driver: Any) -> None:
    member = driver.in_state("Stable").group().members["m1"]
    driver.now_ms = 4_000
    assert driver.error("commit g m1 gen=1 flights/0=1") is E.ILLEGAL_GENERATION
    assert member.session.at_ms == 10_000


def test_a_dead_group_refuses_every_commit(driver: Any) -> None:
    driver.in_state("Stable").group().transition(GroupState.DEAD, 0)
    assert driver.error("commit g m1 gen=2 flights/0=1") is E.COORDINATOR_NOT_AVAILABLE
    assert driver.error("commit g flights/0=1") is E.COORDINATOR_NOT_AVAILABLE
