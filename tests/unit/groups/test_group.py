"""What every group type shows (the classic group stands for all), the context of a command, and the state of a coordinator."""

from typing import Any

import pytest

from ottla.coordinator.effects import Reply, TimerSet
from ottla.coordinator.timers import Timer
from ottla.groups.classic.group import JOIN, ClassicGroup
from ottla.groups.classic.member import SESSION
from ottla.groups.classic.states import GroupState
from ottla.groups.commands import GroupEffects, HeartbeatResult
from ottla.groups.group import UNKNOWN_MS, CommandContext, CoordinatorState
from ottla.groups.settings import GroupSettings
from ottla.protocol.errors import ErrorCode

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


# A command context collects effects and changes soft state alone.


def test_a_command_without_effects_is_empty() -> None:
    assert CommandContext(CoordinatorState(GroupSettings()), 5, 5).effects() == GroupEffects()


def test_collected_effects_are_returned() -> None:
    context, timer = CommandContext(CoordinatorState(GroupSettings()), 5, 5), Timer(JOIN, "g")
    context.reply(1, HeartbeatResult(error=ErrorCode.NONE))
    context.log("line")
    context.arm(timer, 10)
    effects = context.effects()
    assert effects.replies == (Reply(to=1, result=HeartbeatResult(error=ErrorCode.NONE)),)
    assert effects.log_lines == ("line",)
    assert effects.timers == (TimerSet(key="join g", at_ms=15),)


def test_a_timer_that_is_cancelled_by_the_same_command_is_not_reported() -> None:
    context, timer = CommandContext(CoordinatorState(GroupSettings()), 5, 5), Timer(JOIN, "g")
    context.arm(timer, 10)
    context.cancel(timer)
    assert context.effects().timers == ()
    assert context.state.timers.next_deadline_ms() is None


# The state of a coordinator: counters, and the removal of a group.


def test_removing_a_group_cancels_its_timers() -> None:
    state = CoordinatorState(GroupSettings())
    group = state.groups["g"] = ClassicGroup("g", now_ms=0)
    group.pending["m1"] = Timer(SESSION, "g", "m1")
    for timer in (group.join_timer, group.sync_timer, group.pending["m1"]):
        state.timers.arm(timer, 10)
    state.remove_group(group)
    assert state.groups == {}
    assert state.timers.next_deadline_ms() is None


def test_a_removed_group_keeps_its_share_of_the_total_commits() -> None:
    state = CoordinatorState(GroupSettings())
    group = state.groups["g"] = ClassicGroup("g", now_ms=0)
    state.count_commits("g", 3)
    state.remove_group(group)
    assert (state.commit_counts, state.offsets_committed) == ({}, 3)
