"""Failed appends: the errors that clients get, and the state in which the group continues."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.classic.states import GroupState

E = ErrorCode
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
