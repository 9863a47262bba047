"""Replayed state: equal records give equal states."""

from ottla.groups.log.committed_offsets import CommittedOffsets, TopicOffsets
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord
from ottla.groups.log.replayed_state import ReplayedState
from ottla.protocol.coordinator_records import GroupMetadataValue, OffsetValue


def offset(partition: int, value: int | None) -> OffsetRecord:
    stored = None if value is None else OffsetValue(offset=value, leader_epoch=-1, metadata="", commit_timestamp_ms=0)
    return OffsetRecord(group_id="g", topic="t", partition=partition, value=stored)


def group(generation: int | None) -> GroupMetadataRecord:
    value = None
    if generation is not None:
        value = GroupMetadataValue(
            protocol_type="", generation=generation, protocol=None, leader=None, current_state_timestamp_ms=0, members=()
        )
    return GroupMetadataRecord(group_id="g", value=value)


def state(*records: OffsetRecord | GroupMetadataRecord) -> ReplayedState:
    replayed = ReplayedState()
    for record in records:
        replayed.apply(record)
    return replayed


def test_the_last_record_of_a_key_counts() -> None:
    replayed = state(offset(0, 1), offset(0, 2), group(1), group(2))
    committed = replayed.committed("g", "t", 0)
    assert committed is not None
    assert committed.offset == 2
    assert replayed.group_metadata["g"].generation == 2
    assert replayed == state(offset(0, 2), group(2))


def test_tombstones_leave_nothing_behind() -> None:
    assert state(offset(0, 1), group(1), offset(0, None), group(None)) == ReplayedState()
    assert state(offset(0, 1), offset(1, 1), offset(0, None)).offsets == state(offset(1, 1)).offsets


def test_tombstones_for_unknown_keys_change_nothing() -> None:
    assert state(offset(0, None), group(None)) == ReplayedState()
    assert state(offset(0, 1), offset(7, None)) == state(offset(0, 1))


def test_an_unknown_offset_is_none() -> None:
    assert ReplayedState().committed("g", "t", 0) is None
    assert state(offset(0, 1)).committed("g", "other", 0) is None


def test_a_whole_commit_at_once_is_its_records_one_by_one() -> None:
    topics = (TopicOffsets("a", bytes(16), [1, 2, 1], [10, 20, 11], [0, 0, 0]), TopicOffsets("b", bytes(16), [0], [1], [0], ["note"]))
    commit = CommittedOffsets("g", topics, commit_timestamp_ms=7)
    together, alone = ReplayedState(), ReplayedState()
    together.apply_all(commit)
    for record in commit:
        alone.apply(record)
    assert together == alone
    together.apply_all((OffsetRecord(group_id="g", topic="b", partition=0, value=None),))
    assert together.offsets["g"].keys() == {"a"}
