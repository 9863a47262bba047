"""What every group type shows: names, errors by state, and the start of retention. The classic group stands for all."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.group import UNKNOWN_MS

E = ErrorCode


@pytest.mark.parametrize(
    ("state", "is_empty", "delete_group", "delete_offsets"),
    [
        ("Empty", True, E.NONE, E.NONE),
        ("PreparingRebalance", False, E.NON_EMPTY_GROUP, E.NONE),
        ("Stable", False, E.NON_EMPTY_GROUP, E.NONE),
    ],
)
def test_what_a_state_allows(driver: Any, state: str, is_empty: bool, delete_group: ErrorCode, delete_offsets: ErrorCode) -> None:
    group = driver.in_state(state).group()
    assert (group.group_type, group.state_name, group.is_empty, group.is_dead) == ("classic", state, is_empty, False)
    assert (group.delete_group_error, group.delete_offsets_error) == (delete_group, delete_offsets)


def test_offsets_of_members_that_are_not_consumers_cannot_be_deleted() -> None:
    group = ClassicGroup("g", now_ms=0)
    group.protocol_type = "connect"
    group.transition(GroupState.PREPARING_REBALANCE, 0)
    assert group.delete_offsets_error is E.NON_EMPTY_GROUP


def test_a_dead_group_is_as_good_as_unknown() -> None:
    group = ClassicGroup("g", now_ms=0)
    group.transition(GroupState.DEAD, 0)
    assert group.is_dead
    assert (group.delete_group_error, group.delete_offsets_error) == (E.GROUP_ID_NOT_FOUND, E.GROUP_ID_NOT_FOUND)


def test_retention_counts_from_the_last_member_where_there_was_one(driver: Any) -> None:
    driver.now_ms = 3_000
    group = driver.in_state("Empty").group()
    assert group.empty_since_ms == 3_000
    group.state_since_ms = UNKNOWN_MS
    assert group.empty_since_ms is None
    assert ClassicGroup("simple", now_ms=5).empty_since_ms is None


def test_retention_counts_from_each_commit_while_the_group_has_members(driver: Any) -> None:
    assert driver.in_state("Stable").group().empty_since_ms is None
