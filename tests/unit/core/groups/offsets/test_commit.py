"""OffsetCommit: who may commit, and what is stored for each partition."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import OffsetCommit, OffsetToCommit

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
def test_who_may_commit(driver: Any, state: str, line: str, error: ErrorCode) -> None:
    assert driver.in_state(state).error(line) is error


def test_a_consumer_that_is_not_a_member_creates_a_simple_group(driver: Any) -> None:
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


def test_a_commit_whose_append_fails_stores_nothing(driver: Any) -> None:
    driver.given("commit g flights/0=1")
    driver.shell.fail_next_append = E.REQUEST_TIMED_OUT
    assert driver.error("commit g flights/0=2") is E.COORDINATOR_NOT_AVAILABLE
    assert driver.answer("fetch g").topics[0][1][0].offset == 1


def test_a_commit_stores_every_field_in_its_record(driver: Any) -> None:
    driver.now_ms = 5
    record = driver.run(commit(to_commit(4, "note"))).records[0]
    assert (record.group_id, record.topic, record.partition) == ("g", "flights", 4)
    assert (record.value.offset, record.value.leader_epoch, record.value.metadata, record.value.commit_timestamp_ms) == (7, 3, "note", 5)
