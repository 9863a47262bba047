"""Tests of transactions in a log that is read without a broker."""

from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, read_header
from ottla.protocol.records.committed_records import CommittedRecords
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.end_markers import encode_end_marker


def batch(*offsets: int, producer_id: int = -1) -> bytes:
    records = [Record(offset, 0, b"k%d" % offset, b"v") for offset in offsets]
    return bytes(encode_batch(records, base_offset=offsets[0], producer_id=producer_id, is_transactional=producer_id >= 0))


def marker(offset: int, kind: ControlType, producer_id: int) -> bytes:
    record = Record(offset, 0, *encode_end_marker(EndMarker(kind, 0)))
    return bytes(encode_batch([record], base_offset=offset, producer_id=producer_id, is_transactional=True, is_control=True))


def offsets(reader: CommittedRecords, *batches: bytes) -> list[int]:
    return [record.offset for data in batches for record in reader.read(data, read_header(data))]


def test_records_of_a_transaction_count_when_it_commits() -> None:
    reader = CommittedRecords()
    log = [batch(0), batch(1, 2, producer_id=7), batch(3), marker(4, ControlType.COMMIT, 7), batch(5)]
    assert offsets(reader, *log) == [0, 3, 1, 2, 5]
    assert reader.pending_records == 0


def test_records_of_an_aborted_transaction_never_count() -> None:
    reader = CommittedRecords()
    log = [batch(1, producer_id=7), batch(2, producer_id=8), marker(3, ControlType.ABORT, 7), marker(4, ControlType.COMMIT, 8)]
    assert offsets(reader, *log) == [2]
    assert reader.aborted_records == 1


def test_a_transaction_without_an_end_is_pending() -> None:
    reader = CommittedRecords()
    assert offsets(reader, batch(1, 2, producer_id=7)) == []
    assert reader.pending_records == 2


def test_damaged_batches_are_counted() -> None:
    reader = CommittedRecords()
    data = bytearray(batch(1))
    data[-1] ^= 1
    assert offsets(reader, bytes(data), batch(2)) == [2]
    assert reader.damaged_batches == 1


def test_transactions_that_are_too_large_are_dropped() -> None:
    reader = CommittedRecords(pending_max=3)
    log = [batch(1, 2, producer_id=7), batch(3, 4, producer_id=8), marker(5, ControlType.COMMIT, 7), marker(6, ControlType.COMMIT, 8)]
    assert offsets(reader, *log) == [3, 4]
    assert (reader.dropped_records, reader.pending_records) == (2, 0)
