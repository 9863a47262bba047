"""The record of a classic group: its fields, what its replay changes, loading and unloading, failed appends."""

from typing import Any

import pytest

from ottla.coordinator.coordinator import Resign
from ottla.groups.classic.records import replay_group_record
from ottla.groups.classic.states import GroupState
from ottla.groups.log.records import GroupMetadataRecord
from ottla.protocol.errors import ErrorCode
from trials.scenarios.commands import parse_command


def test_a_record_contains_the_generation_and_every_member(driver: Any) -> None:
    group = driver.in_state("Stable").group()
    members = tuple(member.value(group.protocol, member.assignment) for member in group.members.values())
    record = group.record(members, leader=group.leader)
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
    replay_group_record(driver.shell.coordinator.state, group.record((), leader=None))
    assert list(group.members.values()) == before


def test_a_replaced_static_member_loses_its_session(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1")
    old = driver.group().members["s1"]
    driver.do("join g - new=s2 instance=i1")
    assert list(driver.group().members) == ["s2"]
    assert old.session.at_ms is None


def test_a_tombstone_removes_the_group(driver: Any) -> None:
    state = driver.in_state("Empty").shell.coordinator.state
    replay_group_record(state, GroupMetadataRecord(group_id="g", value=None))
    assert state.groups == {}


# Loading and unloading: groups are created from the log, and parked requests are answered when they are unloaded.

E = ErrorCode


def test_members_offsets_and_generation_come_back(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=42")
    driver.now_ms = 5_000
    effects = driver.shell.restart(driver.now_ms)
    assert [(event.kind, event.state_to, event.generation) for event in effects.events] == [("loaded", "Stable", 2)]
    assert [dict(member.assignment) for member in effects.events[0].members] == [{"flights": (0,)}, {"flights": (1,)}]
    assert {timer.key: timer.at_ms for timer in effects.timers} == {"session g m1": 15_000, "session g m2": 15_000}
    assert driver.error("heartbeat g m2 gen=2") is E.NONE
    assert driver.answer("fetch g flights/0").topics[0][1][0].offset == 42


def test_a_rebalance_in_progress_is_lost(driver: Any) -> None:
    driver.in_state("CompletingRebalance")
    driver.shell.restart(0)
    assert (driver.group().state, driver.group().generation) == (GroupState.STABLE, 1)
    assert list(driver.group().members) == ["m1"]


def test_handed_out_ids_are_lost_at_a_restart(driver: Any) -> None:
    driver.given("join g - new=m1")
    driver.shell.restart(0)
    assert driver.error("join g m1") is E.UNKNOWN_MEMBER_ID


def test_offsets_without_a_group_record_create_a_simple_group(driver: Any) -> None:
    driver.given("commit g flights/0=42")
    driver.shell.restart(0)
    assert driver.answer("describe g").state == "Empty"


def test_a_group_over_capacity_rebalances(make_driver: Any) -> None:
    small = make_driver(group_max_size=1)
    small.shell.log = make_driver().in_state("Stable").shell.log
    effects = small.shell.restart(0)
    assert [event.trigger for event in effects.events if event.kind == "trigger"] == ["CAPACITY"]
    assert effects.events[1].reason.startswith("Freshly-loaded group g (size 2) is over capacity 1. Rebalancing")
    assert small.group().state is GroupState.PREPARING_REBALANCE


def test_resigning_answers_every_parked_request(driver: Any) -> None:
    driver.in_state("CompletingRebalance").given("sync g m2 gen=2", "join other - new=x1 old=yes")
    replies = driver.run(Resign()).replies
    assert [(reply.to, reply.result.error) for reply in replies] == [
        (driver.requests - 1, E.NOT_COORDINATOR),
        (driver.requests, E.NOT_COORDINATOR),
    ]
    assert driver.shell.coordinator.next_deadline_ms() is None
    assert driver.shell.coordinator.snapshot().groups == ()


def test_nothing_is_served_while_loading(driver: Any) -> None:
    driver.in_state("Stable").shell.begin_loading()
    coordinator = driver.shell.coordinator
    effects = coordinator.handle(parse_command("commit g m1 gen=2 flights/0=1", 99), now_ms=0)
    assert effects.records == ()
    assert effects.replies[0].result.errors == (E.COORDINATOR_LOAD_IN_PROGRESS,)


def test_protocols_missing_in_the_record_are_not_an_assignor_change(driver: Any) -> None:
    both = "protocols=range:flights/sticky:flights"
    driver.given(f"join g - new=m1 {both}", f"join g m1 {both}", "wait 0", "sync g m1 gen=1")
    driver.given(f"join g - new=m2 {both}", f"join g m2 {both}", f"join g m1 {both}", "sync g m1 gen=2", "sync g m2 gen=2")
    driver.shell.restart(0)
    assert [event.trigger for event in driver.do(f"join g m2 {both}").events] == ["METADATA_UPDATE"]
    driver.given(f"join g m1 {both}", "sync g m1 gen=3", "sync g m2 gen=3")
    assert [event.trigger for event in driver.do("join g m2 protocols=range:flights").events] == ["ASSIGNOR_CHANGE"]


# Failed appends: the errors that clients get, and the state in which the group continues.

ANSWERS = {
    E.UNKNOWN_TOPIC_OR_PARTITION: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_ENOUGH_REPLICAS: E.COORDINATOR_NOT_AVAILABLE,
    E.REQUEST_TIMED_OUT: E.COORDINATOR_NOT_AVAILABLE,
    E.NOT_LEADER_OR_FOLLOWER: E.NOT_COORDINATOR,
    E.KAFKA_STORAGE_ERROR: E.NOT_COORDINATOR,
    E.MESSAGE_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.RECORD_LIST_TOO_LARGE: E.UNKNOWN_SERVER_ERROR,
    E.INVALID_FETCH_SIZE: E.UNKNOWN_SERVER_ERROR,
    E.CORRUPT_MESSAGE: E.CORRUPT_MESSAGE,
}


@pytest.mark.conformance("GroupMetadataManagerTest.testJoinGroupAppendErrorConversion")
@pytest.mark.parametrize("error", ANSWERS)
@pytest.mark.parametrize("line", ["sync g m1 gen=1", "commit simple flights/0=1", "leave g m1", "delete empty", "join new - new=m1"])
def test_the_errors_that_clients_get(driver: Any, error: ErrorCode, line: str) -> None:
    driver.given("join g - new=m1", "join g m1", "wait 0", "commit empty flights/0=1")
    if line.startswith("leave"):
        driver.given("sync g m1 gen=1")
    driver.shell.fail_next_append = error
    assert driver.error(line) is ANSWERS[error]


def test_the_reason_has_kafkas_spelling(driver: Any) -> None:
    driver.in_state("CompletingRebalance").shell.fail_next_append = E.MESSAGE_TOO_LARGE
    event = driver.do("sync g m1 gen=2").events[0]
    assert event.reason == "Error UNKNOWN_SERVER_ERROR when storing group assignmentduring SyncGroup (member: m1)."
    assert event.evidence == {"error_code": E.MESSAGE_TOO_LARGE}


def test_a_group_whose_first_record_failed_is_removed(driver: Any) -> None:
    driver.shell.fail_next_append = E.REQUEST_TIMED_OUT
    effects = driver.do("join g - new=m1 old=yes")
    assert [(reply.to, reply.result.error) for reply in effects.replies] == [(1, E.COORDINATOR_NOT_AVAILABLE)]
    assert effects.events == ()
    assert driver.shell.coordinator.snapshot().groups == ()
    assert driver.shell.coordinator.next_deadline_ms() is None


def test_an_emptied_group_stays_empty_and_has_its_event(driver: Any) -> None:
    driver.in_state("Stable").shell.fail_next_append = E.REQUEST_TIMED_OUT
    effects = driver.do("leave g m1 m2")
    assert [event.kind for event in effects.events] == ["trigger", "trigger", "emptied"]
    assert effects.replies[0].result.error is E.COORDINATOR_NOT_AVAILABLE
    assert driver.group().state is GroupState.EMPTY
    assert driver.shell.stored.group_metadata["g"].generation == 2


def test_a_timer_whose_append_fails_sends_no_replies(driver: Any) -> None:
    driver.given("join g - new=m1", "join g m1", "wait 0", "sync g m1 gen=1")
    driver.shell.fail_next_append = E.REQUEST_TIMED_OUT
    fired = driver.wait(10_000)
    assert [event.kind for event in fired[0].events] == ["trigger", "emptied"]
    assert fired[0].replies == ()


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testCommitOffsetPartialFailure")
def test_a_refused_partition_keeps_its_own_error(make_driver: Any) -> None:
    driver = make_driver(offset_metadata_bytes_max=1)
    driver.shell.fail_next_append = E.REQUEST_TIMED_OUT
    result = driver.answer("commit g 'flights/0=1(long)' 'flights/1=1(x)'")
    assert result.errors == (E.OFFSET_METADATA_TOO_LARGE, E.COORDINATOR_NOT_AVAILABLE)


@pytest.mark.conformance("GroupMetadataManagerTest.testReplaceStaticMemberInStableStateErrors")
def test_a_static_member_that_could_not_be_replaced_gets_the_present_generation(driver: Any) -> None:
    driver.given("join g - new=s1 instance=i1", "wait 0", "sync g s1 gen=1 instance=i1")
    driver.shell.fail_next_append = E.UNKNOWN_TOPIC_OR_PARTITION
    result = driver.answer("join g - new=s1b instance=i1")
    assert (result.error, result.member_id, result.generation) == (E.COORDINATOR_NOT_AVAILABLE, "", 1)
    assert (result.protocol_type, result.protocol_name, result.leader, result.members) == ("consumer", "range", "s1", ())
