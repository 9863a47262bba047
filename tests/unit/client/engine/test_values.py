"""Values of the engine: each request has its own response."""

from ottla.client.engine.values import (
    ListOffsets,
    LogTruncated,
    Metadata,
    OffsetAndMetadata,
    OffsetFetch,
    PartitionEnd,
    PartitionFailure,
    PollIntervalExceeded,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition


def test_two_requests_are_never_the_same() -> None:
    assert Metadata(("t",)) != Metadata(("t",))
    assert len({OffsetFetch("g", ()), OffsetFetch("g", ()), ListOffsets({}, False)}) == 3


A = TopicPartition("t", 0)


def test_events_of_one_partition_differ_by_kind() -> None:
    events = [PartitionEnd(A, 5), PartitionFailure(A, ErrorCode.NONE, ""), LogTruncated(A, OffsetAndMetadata(5), None)]
    assert {each.partition for each in events} == {A}
    assert len(set(events)) == 3
    assert PollIntervalExceeded(5) == PollIntervalExceeded(5)
