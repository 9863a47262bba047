"""Offsets that are committed within transactions: who may, and what they are until their transaction ends (KIP-98, KIP-447)."""

from typing import Any

import pytest

from ottla.coordinator.effects import Producer
from ottla.coordinator.loading import UncommittedBatch
from ottla.groups.commands import ExpireOffsets, ForgetTopics, OffsetToCommit, TxnOffsetCommit
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.model import Record


def committed_by(
    driver: Any, offset: int = 7, *, producer: int = 1, generation: int = -1, member_id: str = "", instance_id: str | None = None
) -> E:
    """Commit an offset of flights/0 within a producer's transaction; the error."""
    command = TxnOffsetCommit(
        reply_to=99,
        group_id="g",
        generation=generation,
        member_id=member_id,
        instance_id=instance_id,
        producer=Producer(producer, 0),
        offsets=[OffsetToCommit(topic="flights", partition=0, offset=offset, leader_epoch=3, metadata="m")],
    )
    coordinator = driver.shell.coordinator
    effects = coordinator.handle(command, now_ms=driver.now_ms)
    if effects.records:
        assert effects.producer == Producer(producer, 0)
        coordinator.replay_transactional(effects.records, effects.producer)
    error: E = effects.replies[0].result.errors[0]
    return error


def end(driver: Any, producer: int = 1, *, commits: bool = True) -> None:
    driver.shell.coordinator.end_transaction(producer, commits=commits)


def fetched(driver: Any, options: str = "") -> tuple[int, E]:
    found = driver.answer(f"fetch g flights/0 {options}").topics[0][1][0]
    return found.offset, found.error


@pytest.mark.parametrize(
    ("state", "generation", "member_id", "instance_id", "error"),
    [
        ("Stable", 2, "m2", None, E.NONE),
        ("Stable", 1, "m2", None, E.ILLEGAL_GENERATION),
        ("Stable", 2, "m9", None, E.UNKNOWN_MEMBER_ID),
        ("Stable", -1, "", None, E.NONE),
        ("Stable", 0, "", None, E.UNKNOWN_MEMBER_ID),
        ("Stable", -1, "m2", None, E.ILLEGAL_GENERATION),
        ("Stable", -1, "", "i9", E.UNKNOWN_MEMBER_ID),
        ("CompletingRebalance", 2, "m1", None, E.NONE),
        ("Empty", -1, "m1", None, E.NONE),
        ("Empty", 2, "m1", None, E.UNKNOWN_MEMBER_ID),
    ],
)
def test_who_may_commit_in_a_classic_group(
    driver: Any, state: str, generation: int, member_id: str, instance_id: str | None, error: E
) -> None:
    driver.in_state(state)
    assert committed_by(driver, generation=generation, member_id=member_id, instance_id=instance_id) is error


def test_a_group_that_is_not_there_is_created_for_a_consumer_that_is_no_member(driver: Any) -> None:
    assert committed_by(driver, generation=0) is E.ILLEGAL_GENERATION
    assert driver.answer("list").groups == ()
    assert committed_by(driver) is E.NONE
    assert [group.group_id for group in driver.answer("list").groups] == ["g"]


def test_an_offset_takes_effect_when_its_transaction_is_committed(driver: Any) -> None:
    driver.given("commit g flights/0=1")
    committed_by(driver)
    assert fetched(driver) == (1, E.NONE)
    assert fetched(driver, "stable=yes") == (-1, E.UNSTABLE_OFFSET_COMMIT)
    end(driver, commits=False)
    assert fetched(driver, "stable=yes") == (1, E.NONE)
    committed_by(driver, 8)
    committed_by(driver, 9)
    end(driver)
    assert fetched(driver, "stable=yes") == (9, E.NONE)
    end(driver)
    assert fetched(driver) == (9, E.NONE)


def test_an_offset_that_is_committed_later_takes_the_place_of_a_pending_one(driver: Any) -> None:
    committed_by(driver)
    driver.given("commit g flights/0=1")
    assert fetched(driver, "stable=yes") == (-1, E.UNSTABLE_OFFSET_COMMIT), "until the transaction ends"
    end(driver)
    assert fetched(driver, "stable=yes") == (1, E.NONE)


def test_an_offset_is_stable_when_the_transactions_of_all_producers_have_ended(driver: Any) -> None:
    committed_by(driver, 7, producer=1)
    committed_by(driver, 8, producer=2)
    end(driver, 2)
    assert fetched(driver, "stable=yes") == (-1, E.UNSTABLE_OFFSET_COMMIT)
    end(driver, 1)
    assert fetched(driver, "stable=yes") == (7, E.NONE), "in the order of their ends"


def test_pending_offsets_of_a_deleted_topic_are_forgotten(driver: Any) -> None:
    committed_by(driver)
    records = driver.run(ForgetTopics(topics=("flights",))).records
    assert [(record.topic, record.partition, record.value) for record in records] == [("flights", 0, None)]
    assert fetched(driver, "stable=yes") == (-1, E.NONE)
    end(driver)
    assert fetched(driver) == (-1, E.NONE)


def test_a_group_with_pending_offsets_does_not_expire(make_driver: Any) -> None:
    driver = make_driver(offsets_retention_ms=1_000)
    driver.given("commit g flights/0=1", "commit g flights/1=1")
    committed_by(driver)
    driver.now_ms = 5_000
    driver.run(ExpireOffsets())
    kept = driver.answer("fetch g")
    assert [(topic, [each.partition for each in found]) for topic, found in kept.topics] == [("flights", [0])]
    end(driver, commits=False)
    driver.run(ExpireOffsets())
    assert driver.answer("list").groups == ()


@pytest.mark.parametrize(("written_ms", "found"), [(10, 7), (30, 1)])
def test_what_is_open_when_the_log_is_read_is_pending_unless_it_was_replaced(driver: Any, written_ms: int, found: int) -> None:
    """By an offset that was committed at 20 ms without a transaction."""
    driver.now_ms = 20
    driver.given("commit g flights/0=1")
    value = OffsetValue(offset=7, leader_epoch=3, metadata="", commit_timestamp_ms=40 - written_ms)
    record = OffsetRecord(group_id="g", topic="flights", partition=0, value=value)
    driver.shell.coordinator.restore_open([UncommittedBatch(1, [Record(0, 0, encode_key(record), encode_value(record))])])
    assert fetched(driver, "stable=yes") == (-1, E.UNSTABLE_OFFSET_COMMIT)
    end(driver)
    assert fetched(driver, "stable=yes") == (found, E.NONE)
