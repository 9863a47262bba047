"""A commit in columns equals the records of its partitions."""

from ottla.core.groups.log.committed_offsets import CommittedOffsets, TopicOffsets
from ottla.core.groups.log.records import NO_TOPIC_ID, OffsetRecord, OffsetValue

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
    assert commit[0].value == OffsetValue(1, -1, "", 9, 99, NO_TOPIC_ID)
