"""Records in plain Python: which of them are handed out, and bytes that are damaged."""

import pytest

from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import empty_batch, encode_batch, read_header
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.end_markers import encode_end_marker

A = TopicPartition("t", 0)


def batch(base: int, count: int, **more: object) -> bytes:
    return bytes(encode_batch([Record(base + at, 1_000, None, b"%d" % at) for at in range(count)], base_offset=base, **more))  # type: ignore[arg-type]


def decoded(data: bytes, position: int = 0, aborted: tuple[tuple[int, int], ...] = ()) -> list[int]:
    fetched = FetchedRecords(A, position, 1_000, memoryview(data), aborted)
    return [columns.offset(row) for columns in decode_plain(fetched) for row in range(len(columns))]


def test_records_before_the_position_are_left_out() -> None:
    assert decoded(batch(0, 3) + batch(3, 3), 4) == [4, 5]


@pytest.mark.conformance("FetcherTest.testParseCorruptedRecord")
def test_a_damaged_batch_is_refused_after_the_records_before_it() -> None:
    data = bytearray(batch(0, 2) + batch(2, 2))
    data[-1] ^= 1
    pieces = decode_plain(FetchedRecords(A, 0, 4, memoryview(bytes(data))))
    assert len(next(pieces)) == 2
    with pytest.raises(PeerError, match="CRC-32C of the record batch at offset 2 is wrong"):
        next(pieces)


def marker(base: int, kind: ControlType) -> bytes:
    key, value = encode_end_marker(EndMarker(kind, 0))
    return bytes(encode_batch([Record(base, 0, key, value)], base_offset=base, producer_id=7, is_transactional=True, is_control=True))


@pytest.mark.conformance(
    "FetcherTest.testFetcherIgnoresControlRecords",
    "FetcherTest.testSkippingAbortedTransactions",
    "FetcherTest.testReturnCommittedTransactions",
    "FetcherTest.testReadCommittedWithCommittedAndAbortedTransactions",
    "FetcherTest.testMultipleAbortMarkers",
    "FetcherTest.testReadCommittedAbortMarkerWithNoData",
    "FetcherTest.testReturnAbortedTransactionsInUncommittedMode",
)
def test_aborted_transactions_and_markers_are_left_out() -> None:
    ours, other = {"producer_id": 7, "is_transactional": True}, {"producer_id": 8, "is_transactional": True}
    data = batch(0, 1, **ours) + batch(1, 1, **other) + marker(2, ControlType.ABORT) + batch(3, 1, **ours) + marker(4, ControlType.COMMIT)
    assert decoded(data, aborted=((7, 0),)) == [1, 3]
    assert decoded(data) == [0, 1, 3]


@pytest.mark.conformance("FetcherTest.testEmptyControlBatch")
def test_a_control_batch_without_its_marker_ends_no_transaction() -> None:
    """The cleaner keeps the last batch of a producer, without the records."""
    emptied = bytes(empty_batch(read_header(marker(1, ControlType.ABORT))))
    ours = {"producer_id": 7, "is_transactional": True}
    assert decoded(batch(0, 1, **ours) + emptied + batch(2, 1, **ours), aborted=((7, 0),)) == []


def test_times() -> None:
    data = batch(0, 1, is_log_append_time=True) + bytes(encode_batch([Record(1, -1, None, None)], base_offset=1))
    first, second = decode_plain(FetchedRecords(A, 0, 2, memoryview(data)))
    assert (first.timestamp(0), second.timestamp(0)) == ((2, 1_000), (0, 0))  # type: ignore[attr-defined]
