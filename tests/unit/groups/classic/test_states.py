"""The table of states equals what the handlers do."""

from typing import Any

import pytest

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.classic.states import ANSWERS, PARK, TRANSITIONS, Answer, GroupState, can_rebalance
from ottla.protocol.errors import ErrorCode

ANSWER_OF_LINE = {
    "join_same": "join g {m}",
    "join_changed": "join g {m} protocols=range:flights,weather",
    "sync": "sync g {m} gen={gen}",
    "heartbeat": "heartbeat g {m} gen={gen}",
    "commit": "commit g {m} gen={gen} flights/0=1",
    "commit_anonymous": "commit g flights/0=1",
    "delete_group": "delete g",
}
MEMBER = {
    GroupState.EMPTY: ("m1", 2),
    GroupState.PREPARING_REBALANCE: ("m2", 1),
    GroupState.COMPLETING_REBALANCE: ("m2", 2),
    GroupState.STABLE: ("m2", 2),
    GroupState.DEAD: ("m1", 2),
}


def bring(driver: Any, state: GroupState) -> None:
    driver.in_state("Empty" if state is GroupState.DEAD else state.value)
    if state is GroupState.DEAD:
        driver.group().transition(GroupState.DEAD, 0)
    assert driver.group().state is state


def expected(answer: Answer) -> ErrorCode | None:
    return None if answer is PARK else answer


@pytest.mark.parametrize("state", GroupState)
@pytest.mark.parametrize("answer", ANSWER_OF_LINE)
def test_each_state_answers_as_its_table_row(driver: Any, state: GroupState, answer: str) -> None:
    bring(driver, state)
    member_id, generation = MEMBER[state]
    line = ANSWER_OF_LINE[answer].format(m=member_id, gen=generation)
    assert driver.error(line) == expected(getattr(ANSWERS[state], answer))


@pytest.mark.parametrize("state", GroupState)
def test_new_members(driver: Any, state: GroupState) -> None:
    bring(driver, state)
    assert driver.error("join g - new=m9 old=yes") == expected(ANSWERS[state].join_new)


@pytest.mark.parametrize("state", GroupState)
def test_leaving(driver: Any, state: GroupState) -> None:
    bring(driver, state)
    result = driver.answer(f"leave g {MEMBER[state][0]}")
    error = result.members[0].error if result.members else result.error
    assert error == ANSWERS[state].leave


@pytest.mark.parametrize("state", [state for state in GroupState if state is not GroupState.DEAD])
def test_offsets_of_a_connect_group_are_deleted_only_when_empty(driver: Any, state: GroupState) -> None:
    bring(driver, state)
    driver.group().protocol_type = "connect"
    assert driver.error("delete-offsets g flights/0") == ANSWERS[state].delete_offsets


@pytest.mark.parametrize("state", GroupState)
def test_describe_shows_metadata_only_when_stable(driver: Any, state: GroupState) -> None:
    bring(driver, state)
    result = driver.answer("describe g")
    assert result.state == state.value
    shown = bool(result.protocol_data) and all(member.metadata for member in result.members)
    assert shown == ANSWERS[state].describes_metadata


@pytest.mark.parametrize("state", [state for state in GroupState if ANSWERS[state].commit is ErrorCode.NONE])
def test_commits_restart_the_session_in_the_states_of_the_table(driver: Any, state: GroupState) -> None:
    bring(driver, state)
    driver.wait(4_000)
    member_id, generation = ("m1", MEMBER[state][1])
    driver.given(f"commit g {member_id} gen={generation} flights/0=1")
    moved = driver.group().members[member_id].session.at_ms == 14_000
    assert moved == ANSWERS[state].commits_keep_session


@pytest.mark.parametrize("before", GroupState)
@pytest.mark.parametrize("after", GroupState)
def test_only_transitions_of_the_table_are_possible(before: GroupState, after: GroupState) -> None:
    group = ClassicGroup("g", now_ms=0)
    group.state = before
    if after in TRANSITIONS[before]:
        group.transition(after, 5)
        assert (group.state, group.previous_state, group.state_since_ms) == (after, before, 5)
    else:
        with pytest.raises(AssertionError):
            group.transition(after, 5)


def test_names_are_kafkas() -> None:
    names = ["Empty", "PreparingRebalance", "CompletingRebalance", "Stable", "Dead"]
    assert [state.value for state in GroupState] == names


def test_a_rebalance_can_start_in_three_states() -> None:
    assert {state for state in GroupState if can_rebalance(state)} == {
        GroupState.EMPTY,
        GroupState.COMPLETING_REBALANCE,
        GroupState.STABLE,
    }
