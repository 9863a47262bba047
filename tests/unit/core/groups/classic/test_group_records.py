"""The record of a classic group: its fields, and what its replay changes."""

from typing import Any

from ottla.core.groups.classic.group_records import group_metadata_record, member_value, replay_group_record
from ottla.core.groups.classic.states import GroupState
from ottla.core.groups.log.records import GroupMetadataRecord
from ottla.testing.scenarios.commands import parse_command


def test_a_record_contains_the_generation_and_every_member(driver: Any) -> None:
    group = driver.in_state("Stable").group()
    members = tuple(member_value(member, group.protocol, member.assignment) for member in group.members.values())
    record = group_metadata_record(group, members, leader=group.leader)
    assert record.value == driver.shell.stored.group_metadata["g"]


def test_an_assignment_takes_effect_when_its_record_is_replayed(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2")
    coordinator, group = driver.shell.coordinator, driver.group()
    effects = coordinator.handle(parse_command("sync g m1 gen=2 assignment=m1:flights/0;m2:flights/1", 99), now_ms=7)
    assert group.staged is not None
    assert group.members["m2"].awaiting_sync is not None
    coordinator.replay(effects.records[0])
    assert (group.staged, group.state, group.state_since_ms) == (None, GroupState.STABLE, 7)
    assert [member.awaiting_sync for member in group.members.values()] == [None, None]


def test_a_record_without_a_staged_change_leaves_the_members(driver: Any) -> None:
    group = driver.in_state("Stable").group()
    before = list(group.members.values())
    replay_group_record(driver.shell.coordinator.state, group, group_metadata_record(group, (), leader=None))
    assert list(group.members.values()) == before


def test_a_replaced_static_member_loses_its_session(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1")
    old = driver.group().members["s1"]
    driver.do("join g - new=s2 instance=i1")
    assert list(driver.group().members) == ["s2"]
    assert old.session.at_ms is None


def test_a_tombstone_removes_the_group(driver: Any) -> None:
    state = driver.in_state("Empty").shell.coordinator.state
    replay_group_record(state, driver.group(), GroupMetadataRecord(group_id="g", value=None))
    assert state.groups == {}
