"""Committed offsets: commit, fetch, deletion, expiry."""

from typing import Any

import pytest

from ottla.groups import offsets
from ottla.groups.commands import ExpireOffsets, ForgetTopics, GroupEffects, OffsetCommit, OffsetToCommit
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, encode_key, encode_value
from ottla.groups.offsets import FetchedOffsets
from ottla.protocol.coordinator_records import GroupMetadataValue, OffsetValue
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_codec import NO_ID

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
    assert driver.run(commit(to_commit(0), retention_ms=-(2**63))).records[0].value.expire_timestamp_ms == 0, "-1 would be never"


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


# OffsetFetch: the committed offsets, and -1 where there is none.

ID, OTHER_ID = b"i" * 16, b"o" * 16


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


def value(offset: int, topic_id: bytes = NO_ID) -> OffsetValue:
    return OffsetValue(offset=offset, leader_epoch=3, metadata="m", commit_timestamp_ms=1, expire_timestamp_ms=None, topic_id=topic_id)


def test_offsets_are_those_of_their_partitions() -> None:
    fetched = FetchedOffsets((4, 2), [value(7), None], NO_ID)
    assert len(fetched) == 2
    assert [(each.partition, each.offset, each.leader_epoch, each.metadata) for each in fetched] == [(4, 7, 3, "m"), (2, -1, -1, "")]
    assert fetched == tuple(fetched)


def test_offsets_of_an_earlier_topic_of_the_name_are_none() -> None:
    values = [value(1, ID), value(2, OTHER_ID), value(3)]
    assert [each.offset for each in FetchedOffsets((0, 1, 2), values, ID)] == [1, -1, 3]
    assert [each.offset for each in FetchedOffsets((0, 1, 2), values, NO_ID)] == [1, 2, 3]


# Deletion of offsets: on request, and with their topics.


def test_offsets_of_topics_in_use_are_not_deleted(driver: Any) -> None:
    driver.in_state("Stable").given("commit g m1 gen=2 flights/0=1 weather/0=1")
    effects = driver.do("delete-offsets g flights/0 weather/0 weather/0 weather/5")
    subscribed = E.GROUP_SUBSCRIBED_TO_TOPIC
    assert effects.replies[0].result.errors == (subscribed, E.NONE, E.NONE, E.NONE)
    assert [(record.topic, record.partition, record.value) for record in effects.records] == [("weather", 0, None)]


def test_offsets_of_an_unknown_group_are_not_deleted(driver: Any) -> None:
    assert driver.error("delete-offsets g flights/0") is E.GROUP_ID_NOT_FOUND


def test_a_deleted_topics_offsets_are_deleted_in_all_groups(driver: Any) -> None:
    driver.given("commit a flights/0=1 weather/0=1", "commit b flights/0=1")
    effects = driver.run(ForgetTopics(topics=("flights", "trains")))
    assert [(record.group_id, record.topic) for record in effects.records] == [("a", "flights"), ("b", "flights")]
    assert effects.replies == ()


def test_a_failed_deletion_changes_nothing(driver: Any) -> None:
    driver.given("commit a flights/0=1")
    driver.shell.fail_next_append = E.KAFKA_STORAGE_ERROR
    assert driver.run(ForgetTopics(topics=("flights",))).replies == ()
    assert driver.answer("fetch a").topics[0][1][0].offset == 1


# Expiry: the retention of offsets, and steps of bounded size however many groups there are.

HOUR_MS = 3_600_000


def one_pass(driver: Any) -> list[GroupEffects]:
    """All steps of a pass."""
    steps = [driver.run(ExpireOffsets())]
    while driver.shell.coordinator.is_expiring:
        steps.append(driver.run(ExpireOffsets()))
    return steps


def loaded(driver: Any, *records: Any) -> Any:
    """The driver after a restart with these records in its log."""
    driver.shell.log = [(encode_key(record), encode_value(record)) for record in records]
    driver.shell.stored.group_metadata.clear()
    driver.shell.stored.offsets.clear()
    for record in records:
        driver.shell.stored.apply(record)
    driver.shell.restart(driver.now_ms)
    return driver


def offset(group_id: str, partition: int, *, at_ms: int = 0, topic: str = "flights") -> OffsetRecord:
    value = OffsetValue(offset=1, leader_epoch=-1, metadata="", commit_timestamp_ms=at_ms)
    return OffsetRecord(group_id=group_id, topic=topic, partition=partition, value=value)


def empty_group(group_id: str, *, since_ms: int) -> GroupMetadataRecord:
    value = GroupMetadataValue(
        protocol_type="consumer", generation=3, protocol=None, leader=None, current_state_timestamp_ms=since_ms, members=()
    )
    return GroupMetadataRecord(group_id=group_id, value=value)


@pytest.mark.parametrize(
    ("since_ms", "committed_ms", "age_ms", "expired"),
    [
        (1_000, 0, HOUR_MS + 999, 0),
        (1_000, 0, HOUR_MS + 1_000, 2),
        # The time that counts may be long before the commit: an administrator's commit does not keep a group.
        (1_000, 5_000, HOUR_MS + 1_000, 2),
        # Old records do not say since when: then the commit counts, and a restart does not.
        (-1, 5_000, HOUR_MS + 4_999, 0),
        (-1, 5_000, HOUR_MS + 5_000, 2),
    ],
)
def test_what_an_empty_group_is_measured_by(make_driver: Any, since_ms: int, committed_ms: int, age_ms: int, expired: int) -> None:
    driver = make_driver(offsets_retention_ms=HOUR_MS)
    driver.now_ms = age_ms
    loaded(driver, empty_group("g", since_ms=since_ms), offset("g", 0, at_ms=committed_ms))
    (step,) = one_pass(driver)
    assert len(step.records) == expired


def test_one_step_visits_a_bounded_number_of_groups(make_driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "VISITED_PER_STEP", 10)
    driver = loaded(make_driver(), *(offset(f"g{number}", 0) for number in range(21)))
    assert [len(step.records) for step in one_pass(driver)] == [0] * 5
    driver.now_ms = 7 * 24 * HOUR_MS
    steps = one_pass(driver)
    assert [len(step.records) for step in steps] == [10, 10, 10, 10, 2]
    assert [step.log_lines for step in steps[:-1]] == [()] * 4
    assert steps[-1].log_lines == ("Generated 42 tombstone records while cleaning up group metadata in 0 milliseconds.",)


def test_one_step_writes_a_bounded_number_of_tombstones(make_driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "TOMBSTONES_PER_STEP", 4)
    records = [offset("big", number, topic=topic) for topic in ("flights", "weather") for number in range(5)]
    driver = loaded(make_driver(), *records, offset("small", 0))
    driver.now_ms = 7 * 24 * HOUR_MS
    steps = one_pass(driver)
    assert [len(step.records) for step in steps] == [4, 4, 5], "the group's own tombstone comes on top"
    observed = [(event.group, event.kind, event.evidence.get("offset_count")) for step in steps for event in step.events]
    assert observed == [
        ("big", "offsets_expired", 4),
        ("big", "offsets_expired", 4),
        ("big", "offsets_expired", 2),
        ("big", "deleted", None),
        ("small", "offsets_expired", 1),
        ("small", "deleted", None),
    ]
    assert driver.shell.coordinator.snapshot().groups == ()


def test_groups_may_be_created_and_deleted_during_a_pass(make_driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "VISITED_PER_STEP", 1)
    driver = loaded(make_driver(), offset("first", 0), offset("second", 0))
    driver.now_ms = 7 * 24 * HOUR_MS
    driver.run(ExpireOffsets())
    assert driver.shell.coordinator.is_expiring
    driver.given("delete second", "commit first flights/0=2", "commit third flights/0=1")
    assert [step.records for step in one_pass(driver)] == [()]
    assert [group.group_id for group in driver.shell.coordinator.snapshot().groups] == ["first", "third"]


def test_many_groups_cost_little_a_step(make_driver: Any) -> None:
    """4,000 groups with 4 offsets each, nothing to expire: 4 steps, none of which looks at more than its share."""
    driver = loaded(make_driver(), *(offset(f"g{number}", each) for number in range(4_000) for each in range(4)))
    assert len(one_pass(driver)) == 4


def test_a_failed_store_ends_the_pass(make_driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offsets, "TOMBSTONES_PER_STEP", 1)
    driver = loaded(make_driver(), offset("a", 0), offset("b", 0))
    driver.now_ms = 7 * 24 * HOUR_MS
    driver.shell.fail_next_append = ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.run(ExpireOffsets()) == GroupEffects()
    assert not driver.shell.coordinator.is_expiring, "to try again at once would be to try without end"
    assert sum(len(step.records) for step in one_pass(driver)) == 4
