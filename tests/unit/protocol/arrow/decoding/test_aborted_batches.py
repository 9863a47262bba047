"""Which batches a read_committed fetch leaves out: aborted transactions, each until its producer's abort marker."""

import pytest

from ottla.columnar import RecordBatchDecoder
from ottla.protocol.arrow.decoding.aborted_batches import without_aborted
from ottla.protocol.arrow.decoding.batches import scan
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import empty_batch, encode_batch, read_header, seal
from ottla.protocol.records.compression import Codec

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"


def _log(*steps: str, codec: Codec = Codec.NONE) -> bytes:
    """One batch of one record a step, offsets from 0 on: "1" a transactional record of producer 1, "-" one of none, "1c" and "1a" the
    markers of producer 1, "1-" a record of producer 1 outside of transactions."""
    buffer = bytearray()
    for offset, step in enumerate(steps):
        producer, what = (-1, "") if step == "-" else (int(step[0]), step[1:])
        is_marker = what in ("c", "a")
        record = Record(offset, 1, {"c": COMMIT, "a": ABORT}.get(what, b"k"), bytes(6))
        options = {"producer_id": producer, "producer_epoch": 0, "is_control": is_marker, "is_transactional": what != "-" and producer >= 0}
        buffer += encode_batch([record], base_offset=offset, codec=Codec.NONE if is_marker else codec, **options)
    return bytes(buffer)


def _offsets(buffer: bytes, aborted: list[tuple[int, int]], start: int = 0, end: int = 1 << 62) -> list[int]:
    decoder = RecordBatchDecoder("t", 0, columns=("offset",))
    found = decoder.decode(buffer, offset_start=start, offset_end=end, aborted=aborted)
    return [offset for batch in found for offset in batch["offset"].to_pylist()]


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
def test_interleaved_producers(codec: Codec):
    log = _log("1", "2", "-", "1", "1a", "2", "1", "2c", "1c", codec=codec)
    assert _offsets(log, [(1, 0)]) == [1, 2, 5, 6]
    assert _offsets(log, []) == [0, 1, 2, 3, 5, 6]


def test_a_producer_that_aborts_again_and_again():
    log = _log("1", "1a", "1", "1c", "1", "1a", "1", "1a", "1")
    assert _offsets(log, [(1, 6), (1, 0), (1, 4)]) == [2, 8]


def test_an_answer_that_begins_inside_an_aborted_transaction():
    log = _log("1", "1", "1", "1a", "1")
    whole = scan(log)
    second = log[whole.table[1][0] - 61 :]
    # The answer that begins there names the transaction again, with the offset where it began.
    assert _offsets(second, [(1, 0)]) == [4]


def test_a_transaction_that_no_marker_ends_in_this_answer():
    assert _offsets(_log("2", "1", "2", "2"), [(2, 0)]) == [1]


def test_markers_outside_of_the_offsets_asked_for_count():
    log = _log("1", "1a", "1", "1c", "1", "1a")
    assert _offsets(log, [(1, 0), (1, 4)], start=2) == [2]
    assert _offsets(log, [(1, 0), (1, 4)], start=2, end=5) == [2]
    assert _offsets(log, [(1, 4)], start=0, end=5) == [0, 2]


def test_records_outside_of_transactions_stay():
    assert _offsets(_log("1", "1-", "-", "1a"), [(1, 0)]) == [1, 2]


@pytest.mark.conformance("FetcherTest.testReadCommittedWithCompactedTopic")
def test_an_aborted_transaction_whose_records_are_gone():
    # Compaction may leave only the marker; what the same producer wrote later counts.
    assert _offsets(_log("1a", "1"), [(1, 0)]) == [1]


@pytest.mark.conformance("FetcherTest.testEmptyControlBatch")
def test_a_control_batch_without_its_marker_ends_no_transaction():
    # The cleaner keeps the last batch of a producer, without the records.
    data, log = len(_log("1")), _log("1", "1a", "1")
    emptied = empty_batch(read_header(log, data))
    assert _offsets(log[:data] + bytes(emptied) + log[-data:], [(1, 0)]) == []
    assert _offsets(log, [(1, 0)]) == [2]


def test_every_batch_has_its_answer():
    log = scan(_log("1", "2", "1a", "1"))
    assert without_aborted(log.buffer, log.table, [(1, 0)]).tolist() == [False, True, True, True]


@pytest.mark.parametrize("damage", [(-1, 1), (61, 0x7E)])
def test_a_damaged_marker_is_refused(damage: tuple[int, int]):
    log, marker = _log("1"), bytearray(_log("1a"))
    marker[:8] = (1).to_bytes(8)
    marker[damage[0]] ^= damage[1]
    if damage[0] > 0:
        seal(marker)
    with pytest.raises(PeerError):
        _offsets(log + bytes(marker), [(1, 0)])
