"""What the log knows: records in, equal states out."""

from ottla.core.groups.committed import CommittedOffsets, TopicOffsets
from ottla.core.groups.durable import DurableState
from ottla.core.groups.records import GroupMetadataRecord, GroupMetadataValue, OffsetRecord, OffsetValue


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


def state(*records: OffsetRecord | GroupMetadataRecord) -> DurableState:
    durable = DurableState()
    for record in records:
        durable.apply(record)
    return durable


def test_the_last_record_of_a_key_counts() -> None:
    durable = state(offset(0, 1), offset(0, 2), group(1), group(2))
    committed = durable.committed("g", "t", 0)
    assert committed is not None
    assert committed.offset == 2
    assert durable.registrations["g"].generation == 2
    assert durable == state(offset(0, 2), group(2))


def test_tombstones_leave_nothing_behind() -> None:
    assert state(offset(0, 1), group(1), offset(0, None), group(None)) == DurableState()
    assert state(offset(0, 1), offset(1, 1), offset(0, None)).offsets == state(offset(1, 1)).offsets


def test_tombstones_of_what_is_not_there_do_nothing() -> None:
    assert state(offset(0, None), group(None)) == DurableState()
    assert state(offset(0, 1), offset(7, None)) == state(offset(0, 1))


def test_nothing_is_committed_where_nothing_is() -> None:
    assert DurableState().committed("g", "t", 0) is None
    assert state(offset(0, 1)).committed("g", "other", 0) is None


def test_a_whole_commit_at_once_is_its_records_one_by_one() -> None:
    topics = (TopicOffsets("a", bytes(16), [1, 2, 1], [10, 20, 11], [0, 0, 0]), TopicOffsets("b", bytes(16), [0], [1], [0], ["note"]))
    commit = CommittedOffsets("g", topics, commit_timestamp_ms=7)
    together, alone = DurableState(), DurableState()
    together.apply_all(commit)
    for record in commit:
        alone.apply(record)
    assert together == alone
    together.apply_all((OffsetRecord(group_id="g", topic="b", partition=0, value=None),))
    assert together.offsets["g"].keys() == {"a"}
