"""One partition of a Fetch: what a later request changes, and when its offsets are in the response."""

from ottla.broker.protocol.fetch_partition import FetchedPartition, FetchPartitionData
from ottla.core.errors import ErrorCode


def test_a_changed_offset_is_in_the_next_response() -> None:
    part = FetchedPartition(("a", 0), -1, 0, -1, 100)
    assert part.record_sent(5, 0, is_error=False)
    assert not part.record_sent(5, 0, is_error=False)
    assert part.record_sent(6, 0, is_error=False)
    assert part.record_sent(6, 1, is_error=False)
    assert part.record_sent(-1, -1, is_error=True)
    assert part.record_sent(-1, -1, is_error=True)
    assert part.record_sent(6, 1, is_error=False)


def test_an_update_takes_every_field_of_the_later_request() -> None:
    part = FetchedPartition(("t", 0), 1, 2, 3, 4)
    part.update(FetchedPartition(("t", 0), 5, 6, 7, 8))
    assert (part.current_leader_epoch, part.offset, part.last_fetched_epoch, part.bytes_max) == (5, 6, 7, 8)


def test_an_error_returns_no_offsets_and_no_records() -> None:
    data = FetchPartitionData(FetchedPartition(("t", 0), -1, 0, -1, 100), ErrorCode.OFFSET_OUT_OF_RANGE)
    assert (data.high_watermark, data.last_stable_offset, data.log_start_offset) == (-1, -1, -1)
    assert (data.records, data.aborted, data.diverging) == (b"", None, None)
