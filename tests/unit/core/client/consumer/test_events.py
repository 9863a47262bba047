"""Events name their partition and compare by value."""

from ottla.core.client.consumer.events import LogTruncated, PartitionEnd, PartitionFailure, PollIntervalExceeded
from ottla.core.client.consumer.values import OffsetAndMetadata
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

A = TopicPartition("t", 0)


def test_events_of_one_partition_differ_by_kind() -> None:
    events = [PartitionEnd(A, 5), PartitionFailure(A, ErrorCode.NONE, ""), LogTruncated(A, OffsetAndMetadata(5), None)]
    assert {each.partition for each in events} == {A}
    assert len(set(events)) == 3
    assert PollIntervalExceeded(5) == PollIntervalExceeded(5)
