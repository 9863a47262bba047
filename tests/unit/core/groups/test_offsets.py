"""Offsets: fenced by generation, kept per partition, read from what is stored, forgotten on demand."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import ForgetTopics, OffsetCommit, OffsetToCommit

E = ErrorCode


def commit(*offsets: OffsetToCommit, retention_ms: int = -1) -> OffsetCommit:
    return OffsetCommit(
        reply_to=1,
        group_id="g",
        generation=-1,
        member_id="",
        instance_id=None,
        retention_ms=retention_ms,
        knows_group_errors=True,
        offsets=offsets,
    )


def to_commit(partition: int, metadata: str | None = None) -> OffsetToCommit:
    return OffsetToCommit(topic="flights", partition=partition, offset=7, leader_epoch=3, metadata=metadata)


@pytest.mark.parametrize(
    ("state", "line", "error"),
    [
        ("Stable", "commit g m2 gen=2 flights/0=1", E.NONE),
        ("Stable", "commit g m2 gen=1 flights/0=1", E.ILLEGAL_GENERATION),
        ("Stable", "commit g m2 gen=3 flights/0=1", E.ILLEGAL_GENERATION),
        ("Stable", "commit g m9 gen=2 flights/0=1", E.UNKNOWN_MEMBER_ID),
        ("Stable", "commit g flights/0=1", E.UNKNOWN_MEMBER_ID),
        ("PreparingRebalance", "commit g m1 gen=1 flights/0=1", E.NONE),
        ("CompletingRebalance", "commit g m1 gen=1 flights/0=1", E.ILLEGAL_GENERATION),
        ("CompletingRebalance", "commit g m1 gen=2 flights/0=1", E.REBALANCE_IN_PROGRESS),
        ("Empty", "commit g m1 gen=2 flights/0=1", E.UNKNOWN_MEMBER_ID),
        ("Empty", "commit g flights/0=1", E.NONE),
        ("Empty", "commit g m1 flights/0=1", E.NONE),
        ("Empty", "commit unknown m1 gen=0 flights/0=1", E.GROUP_ID_NOT_FOUND),
        ("Empty", "commit unknown m1 gen=0 flights/0=1 old=yes", E.ILLEGAL_GENERATION),
        ("Empty", "commit unknown flights/0=1", E.NONE),
    ],
)
def test_s1_5_who_may_commit(driver: Any, state: str, line: str, error: ErrorCode) -> None:
    assert driver.in_state(state).error(line) is error


def test_s2_3_a_consumer_that_is_no_member_makes_a_simple_group(driver: Any) -> None:
    driver.given("commit g flights/0=42")
    assert driver.answer("list").groups[0].protocol_type == ""
    assert driver.answer("fetch g flights/0").topics[0][1][0].offset == 42


def test_metadata_that_is_too_long_is_refused_for_its_partition_alone(make_driver: Any) -> None:
    driver = make_driver(offset_metadata_bytes_max=4)
    effects = driver.run(
        commit(to_commit(0, "12345"), to_commit(1, "1234"), to_commit(2, None), to_commit(3, "😀😀"), to_commit(4, "😀😀x"))
    )
    long = E.OFFSET_METADATA_TOO_LARGE
    assert effects.replies[0].result.errors == (long, E.NONE, E.NONE, E.NONE, long), "Java counts UTF-16 units"
    assert [record.partition for record in effects.records] == [1, 2, 3]
    assert effects.records[1].value.metadata == ""


def test_an_expiry_of_its_own_is_stored(driver: Any) -> None:
    driver.now_ms = 1_000
    assert driver.run(commit(to_commit(0), retention_ms=500)).records[0].value.expire_timestamp_ms == 1_500
    assert driver.run(commit(to_commit(0))).records[0].value.expire_timestamp_ms is None
    assert driver.run(commit(to_commit(0), retention_ms=2**63 - 1)).records[0].value.expire_timestamp_ms == 2**63 - 1


def test_unknown_offsets_and_groups_read_as_minus_one(driver: Any) -> None:
    fetched = driver.given("commit g flights/0=42").answer("fetch g flights/0 flights/9 weather/0")
    assert [(topic, [each.offset for each in found]) for topic, found in fetched.topics] == [("flights", [42, -1]), ("weather", [-1])]
    unknown = driver.answer("fetch unknown flights/0")
    only = unknown.topics[0][1][0]
    assert (unknown.error, only.offset, only.leader_epoch, only.metadata, only.error) == (E.NONE, -1, -1, "", E.NONE)


def test_all_offsets_are_read_in_order(driver: Any) -> None:
    driver.given("commit g weather/1=1 flights/10=2 flights/2=3")
    topics = driver.answer("fetch g").topics
    assert [(topic, [each.partition for each in found]) for topic, found in topics] == [("flights", [2, 10]), ("weather", [1])]
    assert driver.answer("fetch unknown").topics == ()


def test_a_commit_that_cannot_be_kept_is_refused_and_forgotten(driver: Any) -> None:
    driver.given("commit g flights/0=1")
    driver.shell.fail_next_append = E.REQUEST_TIMED_OUT
    assert driver.error("commit g flights/0=2") is E.COORDINATOR_NOT_AVAILABLE
    assert driver.answer("fetch g").topics[0][1][0].offset == 1


def test_offsets_of_topics_in_use_are_not_deleted(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=1 weather/0=1")
    effects = driver.do("delete-offsets g flights/0 weather/0 weather/0 weather/5")
    subscribed = E.GROUP_SUBSCRIBED_TO_TOPIC
    assert effects.replies[0].result.errors == (subscribed, E.NONE, E.NONE, E.NONE)
    assert [(record.topic, record.partition, record.value) for record in effects.records] == [("weather", 0, None)]


def test_offsets_of_an_unknown_group_are_not_deleted(driver: Any) -> None:
    assert driver.error("delete-offsets g flights/0") is E.GROUP_ID_NOT_FOUND


def test_deleted_topics_take_all_groups_offsets(driver: Any) -> None:
    driver.given("commit a flights/0=1 weather/0=1", "commit b flights/0=1")
    effects = driver.run(ForgetTopics(topics=("flights", "trains")))
    assert [(record.group_id, record.topic) for record in effects.records] == [("a", "flights"), ("b", "flights")]
    assert effects.replies == ()


def test_a_failed_forgetting_leaves_everything(driver: Any) -> None:
    driver.given("commit a flights/0=1")
    driver.shell.fail_next_append = E.KAFKA_STORAGE_ERROR
    assert driver.run(ForgetTopics(topics=("flights",))).replies == ()
    assert driver.answer("fetch a").topics[0][1][0].offset == 1


def test_s2_1_a_commit_carries_everything_into_its_record(driver: Any) -> None:
    driver.now_ms = 5
    record = driver.run(commit(to_commit(4, "note"))).records[0]
    assert (record.group_id, record.topic, record.partition) == ("g", "flights", 4)
    assert (record.value.offset, record.value.leader_epoch, record.value.metadata, record.value.commit_timestamp_ms) == (7, 3, "note", 5)
