"""Expiry: the retention of offsets, and steps of bounded size however many groups there are."""

from typing import Any

import pytest

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import ExpireOffsets
from ottla.core.groups.effects import Effects
from ottla.core.groups.log.records import GroupMetadataRecord, GroupMetadataValue, OffsetRecord, OffsetValue, encode_key, encode_value
from ottla.core.groups.offsets import expiry

HOUR_MS = 3_600_000


def one_pass(driver: Any) -> list[Effects]:
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
    monkeypatch.setattr(expiry, "VISITED_PER_STEP", 10)
    driver = loaded(make_driver(), *(offset(f"g{number}", 0) for number in range(21)))
    assert [len(step.records) for step in one_pass(driver)] == [0] * 5
    driver.now_ms = 7 * 24 * HOUR_MS
    steps = one_pass(driver)
    assert [len(step.records) for step in steps] == [10, 10, 10, 10, 2]
    assert [step.log_lines for step in steps[:-1]] == [()] * 4
    assert steps[-1].log_lines == ("Generated 42 tombstone records while cleaning up group metadata in 0 milliseconds.",)


def test_one_step_writes_a_bounded_number_of_tombstones(make_driver: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(expiry, "TOMBSTONES_PER_STEP", 4)
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
    monkeypatch.setattr(expiry, "VISITED_PER_STEP", 1)
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
    monkeypatch.setattr(expiry, "TOMBSTONES_PER_STEP", 1)
    driver = loaded(make_driver(), offset("a", 0), offset("b", 0))
    driver.now_ms = 7 * 24 * HOUR_MS
    driver.shell.fail_next_append = ErrorCode.KAFKA_STORAGE_ERROR
    assert driver.run(ExpireOffsets()) == Effects()
    assert not driver.shell.coordinator.is_expiring, "to try again at once would be to try without end"
    assert sum(len(step.records) for step in one_pass(driver)) == 4
