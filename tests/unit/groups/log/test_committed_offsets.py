"""A commit in columns equals the records of its partitions."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.groups.log.committed_offsets import CommittedOffsets, TopicOffsets, frame_records
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.model import Record
from ottla.protocol.record_codec import NO_ID
from ottla.protocol.records.batch import encode_records

ID = bytes(range(16))


def test_a_commit_is_a_record_for_each_partition_in_their_order() -> None:
    topics = (TopicOffsets("b", ID, [3, 1], [30, 10], [5, -1]), TopicOffsets("a", ID, [0], [7], [2], ["note"]))
    commit = CommittedOffsets("g", topics, commit_timestamp_ms=9)
    assert len(commit) == 3
    assert commit == (
        OffsetRecord(group_id="g", topic="b", partition=3, value=OffsetValue(30, 5, "", 9, None, ID)),
        OffsetRecord(group_id="g", topic="b", partition=1, value=OffsetValue(10, -1, "", 9, None, ID)),
        OffsetRecord(group_id="g", topic="a", partition=0, value=OffsetValue(7, 2, "note", 9, None, ID)),
    )


def test_a_commit_that_expires_has_neither_epoch_nor_topic_id() -> None:
    commit = CommittedOffsets("g", (TopicOffsets("t", ID, [0], [1], [5]),), commit_timestamp_ms=9, expire_timestamp_ms=99)
    assert commit[0].value == OffsetValue(1, -1, "", 9, 99, NO_ID)


TOPIC_ID = bytes(range(1, 17))


def one_by_one(records, first: int) -> bytes:
    rows = [Record(first + number, 0, encode_key(record), encode_value(record)) for number, record in enumerate(records)]
    return bytes(encode_records(rows, base_offset=0, base_timestamp_ms=0))


@pytest.mark.parametrize("first", [0, 1, 40, 63, 64, 65, 8_150, 8_191, 8_192, 2_000_000])
@pytest.mark.parametrize("topic_id", [TOPIC_ID, bytes(16)])
@pytest.mark.parametrize("count", [1, 50, 200])
@pytest.mark.parametrize("group_id", ["g", "g" * 40, "ü" * 400, "g" * 9_000])
def test_a_commit_has_its_records_bytes(first: int, topic_id: bytes, count: int, group_id: str) -> None:
    offsets = TopicOffsets("flights", topic_id, list(range(count)), [2**63 - 1 - n for n in range(count)], [n - 1 for n in range(count)])
    commit = CommittedOffsets(group_id, (offsets,), commit_timestamp_ms=1_700_000_000_000)
    assert frame_records(commit, first) == one_by_one(commit, first)


@settings(max_examples=150, deadline=None)
@given(
    data=st.data(),
    first=st.sampled_from([0, 1, 55, 63, 64, 8_185, 8_191, 8_192, 2**20 - 4, 2**20, 2**27 - 3]),
    topic_id=st.sampled_from([TOPIC_ID, bytes(16)]),
    metadata=st.sampled_from([st.just("m"), st.text(max_size=3), st.sampled_from(["", "ü" * 63, "x" * 126, "x" * 127, "𝄞" * 32])]),
)
def test_metadata_of_all_kinds(data, first: int, topic_id: bytes, metadata) -> None:
    rows = st.tuples(st.integers(0, 2**31 - 1), st.integers(-(2**63), 2**63 - 1), st.integers(-1, 2**31 - 1), metadata)
    topics = tuple(
        TopicOffsets(name, topic_id, *(list(column) for column in zip(*data.draw(st.lists(rows, min_size=1, max_size=12)), strict=True)))
        for name in ("flights", "ünits")
    )
    commit = CommittedOffsets("g", topics, commit_timestamp_ms=1_700_000_000_000)
    assert frame_records(commit, first) == one_by_one(commit, first)


@pytest.mark.parametrize("expire_timestamp_ms", [None, 5])
def test_a_commit_of_several_topics_with_metadata_and_without(expire_timestamp_ms: int | None) -> None:
    topics = (
        TopicOffsets("a", TOPIC_ID, [1, 2], [10, 20], [0, 0]),
        TopicOffsets("b", TOPIC_ID, [1], [10], [0], ["note"]),
        TopicOffsets("c", bytes(16), [1, 2], [10, 20], [0, 0], ["", "x" * 300]),
        TopicOffsets("d", TOPIC_ID, list(range(70)), [3] * 70, [4] * 70),
    )
    commit = CommittedOffsets("g", topics, commit_timestamp_ms=7, expire_timestamp_ms=expire_timestamp_ms)
    assert frame_records(commit, 60) == one_by_one(commit, 60)


def test_other_records_too() -> None:
    records = (
        OffsetRecord(group_id="g", topic="t", partition=3, value=None),
        GroupMetadataRecord(group_id="g", value=None),
    )
    assert frame_records(records, 63) == one_by_one(records, 63)
