"""The durable state, replayed singly and in bulk."""

import pytest

from ottla.groups.log.committed_offsets import CommittedOffsets, TopicOffsets
from ottla.groups.log.records import GroupMetadataRecord, GroupRecord, OffsetRecord, encode_key, encode_value
from ottla.groups.log.replayed_state import LoadedGroups, ReferenceReducer, ReplayedState
from ottla.protocol.coordinator_records import GroupMetadataValue, OffsetValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch

GROUP = GroupMetadataValue(protocol_type="consumer", generation=1, protocol=None, leader=None, current_state_timestamp_ms=5, members=())


def commit(offset: int | None, partition: int = 0) -> OffsetRecord:
    value = None if offset is None else OffsetValue(offset, -1, "", 5)
    return OffsetRecord(group_id="g", topic="t", partition=partition, value=value)


def batch(*records: GroupRecord | tuple[bytes | None, bytes | None], base_offset: int = 0, is_control: bool = False) -> bytes:
    pairs = [each if isinstance(each, tuple) else (encode_key(each), encode_value(each)) for each in records]
    found = [Record(base_offset + number, 5, key, value) for number, (key, value) in enumerate(pairs)]
    return bytes(encode_batch(found, base_offset=base_offset, is_control=is_control))


def folded(*buffers: bytes, skipped: frozenset[int] = frozenset(), from_offset: int = 0) -> LoadedGroups:
    fold = ReferenceReducer()
    for buffer in buffers:
        fold.apply(fold.scan(buffer), skipped=skipped, from_offset=from_offset)
    return fold.finish()


def test_the_last_commit_wins_over_all_buffers():
    loaded = folded(batch(commit(1), commit(2), commit(7, 3)), batch(commit(4), base_offset=3))
    assert {partition: value.offset for partition, value in loaded.replayed.offsets["g"]["t"].items()} == {0: 4, 3: 7}


def test_tombstones_leave_nothing_behind():
    assert folded(batch(commit(1), commit(None))).replayed.offsets == {}
    assert folded(batch(commit(1), commit(None), commit(3))).replayed.offsets["g"]["t"][0].offset == 3


def test_groups_are_registered_and_forgotten():
    assert folded(batch(GroupMetadataRecord(group_id="g", value=GROUP))).replayed.group_metadata == {"g": GROUP}
    gone = GroupMetadataRecord(group_id="g", value=None)
    assert folded(batch(GroupMetadataRecord(group_id="g", value=GROUP), gone, gone)).replayed.group_metadata == {}


def test_records_without_meaning_are_skipped_and_reported():
    key = encode_key(commit(None))
    loaded = folded(batch(commit(5), (key, b"\0\x09"), (None, b""), (b"\0\x63", b"?"), (b"\xff\xff", None), base_offset=10))
    assert loaded.replayed.offsets["g"]["t"][0].offset == 5
    assert loaded.unknown == 1
    assert loaded.problems == (
        "the record at offset 11 is passed over: offset value of version 9",
        "the record at offset 12 is passed over: a record of the offsets topic has no key",
        "the record at offset 14 is passed over: record type -1",
    )


def test_batches_that_are_skipped_or_end_too_early_do_not_count():
    first, second = batch(commit(1)), batch(commit(2), base_offset=1)
    assert folded(first + second, skipped=frozenset({len(first)})).replayed.offsets["g"]["t"][0].offset == 1
    assert folded(batch(commit(1, 1)) + second, from_offset=1).replayed.offsets["g"]["t"].keys() == {0}


def test_scanned_batches_have_their_end_and_the_special_positions():
    first, second = batch(commit(1)), batch((b"\0\0\0\1", b""), base_offset=1, is_control=True)
    piece = ReferenceReducer().scan(first + second + first[:61])
    assert (piece.size_bytes, piece.next_batch_bytes, piece.special) == (len(first + second), len(first), [len(first)])
    assert ReferenceReducer().scan(first[:60]).next_batch_bytes == 0


@pytest.mark.parametrize(("at", "byte"), [(17, 0xFF), (0, 0x7F), (16, 1)])
def test_damaged_batches_are_refused(at: int, byte: int):
    buffer = bytearray(batch(commit(1), commit(2)))
    if at == 0:
        buffer[0:8] = (2**63 - 1).to_bytes(8)
    else:
        buffer[at] = byte ^ buffer[at]
    with pytest.raises(PeerError):
        ReferenceReducer().scan(buffer)


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


def test_tombstones_leave_no_state_behind() -> None:
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
