"""Snapshots: frozen copies of the groups."""

import dataclasses
from typing import Any

import pytest


def test_a_snapshot_shows_parked_requests(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2", "commit other flights/3=7")
    group, simple = driver.shell.coordinator.snapshot().groups
    assert (group.group_id, group.state, group.generation, group.leader) == ("g", "CompletingRebalance", 2, "m1")
    assert group.metadata is not None
    assert group.metadata.generation == 1
    assert [member.parked_in for member in group.members] == [None, "SyncGroup"]
    assert group.pending_sync_ids == ("m1",)
    assert group.sync_deadline_ms == 60_000
    assert group.join_deadline_ms is None
    assert simple.offsets["flights"][3].offset == 7
    assert simple.metadata is None


def test_a_snapshot_does_not_change_with_the_group(driver: Any) -> None:
    driver.in_state("Stable")
    before = driver.shell.coordinator.snapshot()
    driver.given("commit g m1 gen=2 flights/0=1", "leave g m2")
    assert before.groups[0].offsets == {}
    assert [member.member_id for member in before.groups[0].members] == ["m1", "m2"]
    with pytest.raises(dataclasses.FrozenInstanceError):
        before.groups[0].state = "Empty"


def test_assignments_are_readable(driver: Any) -> None:
    driver.in_state("Stable")
    snapshot = driver.shell.coordinator.snapshot()
    assert [dict(member.assigned) for member in snapshot.groups[0].members] == [{"flights": (0,)}, {"flights": (1,)}]
    assert (snapshot.partition, snapshot.node_id, snapshot.status) == (0, 1, "active")
