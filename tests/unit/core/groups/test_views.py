"""Views: frozen pictures of what there is."""

import dataclasses
from typing import Any

import pytest


def test_a_view_tells_who_waits_for_what(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2", "commit other flights/3=7")
    group, simple = driver.shell.coordinator.view().groups
    assert (group.group_id, group.state, group.generation, group.leader) == ("g", "CompletingRebalance", 2, "m1")
    assert group.registered is not None
    assert group.registered.generation == 1
    assert [member.waits_in for member in group.members] == [None, "SyncGroup"]
    assert group.pending_sync_ids == ("m1",)
    assert group.sync_deadline_ms == 60_000
    assert group.join_deadline_ms is None
    assert simple.offsets["flights"][3].offset == 7
    assert simple.registered is None


def test_a_view_does_not_change_with_the_group(driver: Any) -> None:
    driver.in_state("Stable")
    before = driver.shell.coordinator.view()
    driver.given("commit g m1 gen=2 flights/0=1", "leave g m2")
    assert before.groups[0].offsets == {}
    assert [member.member_id for member in before.groups[0].members] == ["m1", "m2"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.groups[0].state = "Empty"


def test_assignments_are_readable(driver: Any) -> None:
    driver.in_state("Stable")
    view = driver.shell.coordinator.view()
    assert [dict(member.assigned) for member in view.groups[0].members] == [{"flights": (0,)}, {"flights": (1,)}]
    assert (view.partition, view.node_id, view.status) == (0, 1, "active")
