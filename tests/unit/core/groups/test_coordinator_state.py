"""The state of a coordinator: counters, and the removal of a group."""

from ottla.core.groups.classic.group import ClassicGroup
from ottla.core.groups.coordinator_state import CoordinatorState
from ottla.core.groups.settings import GroupSettings
from ottla.core.groups.timers import SESSION, Timer


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
