"""Fetched bytes as slices of plain record bytes."""

import numpy as np
import pytest

from ottla.columnar import RecordBatchDecoder
from ottla.protocol.arrow import batches as columnar_batches
from ottla.protocol.arrow import record_kernels
from ottla.protocol.arrow.batches import scan, slices, without_aborted
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import empty_batch, encode_batch, read_header, seal
from ottla.protocol.records.compression import Codec

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"), Header("empty", None))),
    Record(11, 1_700_000_000_005, None, b"", ()),
    Record(13, 1_699_999_999_000, b"", None, ()),
]

COMMIT, ABORT = b"\0\0\0\1", b"\0\0\0\0"

EVERYTHING = (0, 2**63 - 1)


def _scan(buffer: bytes, rows: int = 16) -> tuple[np.ndarray, int, int]:
    table, array = np.empty((rows, record_kernels.TABLE_COLUMNS), np.int64), np.frombuffer(buffer, np.uint8)
    return table, *record_kernels.scan_headers(array.ctypes.data, len(array), table.ctypes.data, rows)


def test_scan_fills_one_row_a_batch_and_leaves_out_a_partial_one():
    batch = bytes(encode_batch(RECORDS, base_offset=10, producer_id=7, producer_epoch=0))
    table, count, status = _scan(batch + batch[:-1])
    assert (count, status) == (1, record_kernels.OK)
    assert table[
        0, [record_kernels.POSITION, record_kernels.END, record_kernels.BASE_OFFSET, record_kernels.LAST_OFFSET_DELTA]
    ].tolist() == [
        61,
        len(batch),
        10,
        3,
    ]
    assert table[0, [record_kernels.RECORD_COUNT, record_kernels.ATTRIBUTES, record_kernels.PRODUCER_ID]].tolist() == [3, 0, 7]
    assert table[0, [record_kernels.BASE_TIMESTAMP_MS, record_kernels.MAX_TIMESTAMP_MS]].tolist() == [1_700_000_000_000, 1_700_000_000_005]
    assert table[0, record_kernels.CRC] == int.from_bytes(batch[17:21])


def test_scan_counts_on_when_the_table_is_full():
    batch = bytes(encode_batch(RECORDS, base_offset=10))
    assert _scan(batch * 5, rows=2)[1] == 5


@pytest.mark.parametrize(
    ("at", "data", "status"),
    [
        (16, b"\x01", record_kernels.BAD_MAGIC),
        (8, b"\x00\x00\x00\x30", record_kernels.BAD_LENGTH),
        (8, b"\xff\xff\xff\xff", record_kernels.BAD_LENGTH),
        (0, b"\xff" * 8, record_kernels.BAD_NUMBER),
        (0, b"\x7f" + b"\xff" * 7, record_kernels.BAD_NUMBER),
        (23, b"\xff" * 4, record_kernels.BAD_NUMBER),
        (57, b"\xff" * 4, record_kernels.BAD_NUMBER),
    ],
)
def test_scan_refuses_headers_that_cannot_be(at: int, data: bytes, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    batch[at : at + len(data)] = data
    assert _scan(bytes(batch))[2] == status


def _chosen(buffer: bytes, first: int, end: int) -> tuple[list[int], bool]:
    table, count, _ = _scan(buffer)
    tasks = np.empty(count, np.uint8)
    is_compressed = record_kernels.choose(table.ctypes.data, count, first, end, tasks.ctypes.data)
    return tasks.tolist(), bool(is_compressed)


def test_batches_outside_the_offsets_are_skipped_and_control_batches_only_checked():
    control = encode_batch([Record(14, 0, b"", b"")], base_offset=14, is_control=True)
    buffer = bytes(encode_batch(RECORDS, base_offset=10) + control + encode_batch([Record(15, 0, None, b"x")], base_offset=15))
    read, check, skip = record_kernels.READ, record_kernels.CHECK, record_kernels.SKIP
    assert _chosen(buffer, 0, 100) == ([read, check, read], False)
    assert _chosen(buffer, 13, 15) == ([read, check, skip], False)
    assert _chosen(buffer, 14, 15) == ([skip, check, skip], False)
    assert _chosen(buffer, 15, 16) == ([skip, skip, read], False)


def test_only_batches_to_read_count_as_compressed():
    plain, packed = encode_batch([Record(0, 0, None, b"x")]), encode_batch([Record(1, 0, None, b"x")], base_offset=1, codec=Codec.LZ4)
    assert _chosen(bytes(plain + packed), 0, 2)[1]
    assert not _chosen(bytes(plain + packed), 0, 1)[1]


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


def _batch(base_offset: int, count: int = 1, size: int = 10, **options) -> bytearray:
    records = [Record(base_offset + i, 1_700_000_000_000, None, bytes(size)) for i in range(count)]
    return encode_batch(records, base_offset=base_offset, **options)


def _read(part) -> list[tuple[int, bytes]]:
    """Base offset and plain record bytes of each batch that is to be read."""
    rows = part.table[part.tasks == record_kernels.READ].tolist()
    return [
        (row[record_kernels.BASE_OFFSET], bytes(memoryview(part.source)[row[record_kernels.POSITION] : row[record_kernels.END]]))
        for row in rows
    ]


def test_next_offset_is_where_the_next_fetch_goes_on():
    assert scan(_batch(0) + _batch(5, 3)).next_offset == 8
    assert scan(b"").next_offset is None
    assert scan(_batch(0)[:-1]).next_offset is None


def test_more_batches_than_the_first_table_holds():
    assert len(scan(b"".join(_batch(i) for i in range(300))).table) == 300


def test_plain_batches_are_one_slice_of_the_fetched_buffer():
    buffer = bytes(_batch(0, 2) + _batch(2, 2) + _batch(4, is_control=True) + _batch(5, 2) + _batch(7))
    (part,) = slices(scan(buffer), (3, 7))
    assert [base for base, _ in _read(part)] == [2, 5]
    assert part.source.obj is buffer
    assert (part.rows_max, part.bytes_max, part.is_checked) == (8, len(buffer), False)
    assert list(slices(scan(b""), EVERYTHING)) == []


def test_aborted_transactions_are_not_read():
    buffer = _batch(0, is_transactional=True, producer_id=1) + _batch(1, is_transactional=True, producer_id=2)
    assert [[base for base, _ in _read(part)] for part in slices(scan(buffer), EVERYTHING, [(1, 0)])] == [[1]]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compressed_batch_among_plain_ones(codec: Codec):
    plain = _batch(0, 3)[61:]
    buffer = _batch(0, 3) + _batch(3, 3, codec=codec) + _batch(6, 3)
    assert [_read(part) for part in slices(scan(buffer), EVERYTHING)] == [[(0, plain), (3, plain), (6, plain)]]


def test_slices_end_when_they_are_large_and_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch):
    buffer = b"".join(_batch(10 * i, 10, codec=Codec.LZ4) for i in range(5)) + _batch(50, 100, codec=Codec.LZ4) + _batch(150)
    small, large = len(_batch(0, 10)) - 61, len(_batch(0, 100)) - 61
    monkeypatch.setattr(columnar_batches, "SLICE_BYTES", 2 * small)
    assert [[base for base, _ in _read(part)] for part in slices(scan(buffer), EVERYTHING)] == [[0, 10], [20, 30], [40, 50], [150]]
    monkeypatch.setattr(columnar_batches, "SLICE_BYTES", 3 * small)
    monkeypatch.setattr(columnar_batches, "_idle_arenas", [])
    monkeypatch.setattr(columnar_batches, "ARENA_BYTES_MIN", 2 * small + 1)
    read = [_read(part) for part in slices(scan(buffer), EVERYTHING)]
    assert [[base for base, _ in part] for part in read] == [[0, 10], [20, 30], [40], [50], [150]]
    assert len(read[3][0][1]) == large


def test_memory_is_used_again_but_not_by_two_at_a_time():
    packed = scan(_batch(0, 3, codec=Codec.LZ4))
    first, second = slices(packed, EVERYTHING), slices(packed, EVERYTHING)
    one, other = next(first), next(second)
    assert one.source is not other.source
    assert list(first) == list(second) == []
    assert any(next(slices(packed, EVERYTHING)).source is source for source in (one.source, other.source))


@pytest.mark.parametrize("position", [21, 61, -1])
def test_a_changed_byte_is_found_by_the_checksum(position: int):
    buffer = _batch(0, codec=Codec.LZ4) + _batch(1, 3, codec=Codec.LZ4)
    buffer[len(_batch(0, codec=Codec.LZ4)) + position if position > 0 else position] ^= 0x40
    found = slices(scan(buffer), EVERYTHING)
    assert [base for base, _ in _read(next(found))] == [0]
    with pytest.raises(PeerError, match="CRC-32C of the record batch at offset 1"):
        next(found)


def test_compressed_bytes_that_grow_too_large_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columnar_batches, "DECOMPRESSED_BYTES_MAX", 1000)
    with pytest.raises(PeerError, match="more than 1000 bytes"):
        list(slices(scan(_batch(0, codec=Codec.ZSTD) + _batch(1, 3, 1000, codec=Codec.ZSTD)), EVERYTHING))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist_are_refused(codec: int):
    buffer = _batch(0)
    buffer[22] |= codec
    seal(buffer)
    with pytest.raises(PeerError, match=f"codec {codec}"):
        list(slices(scan(buffer), EVERYTHING))


def test_bytes_that_are_no_batches_are_refused():
    with pytest.raises(PeerError, match="older than v2"):
        scan(bytes(8) + b"\x00\x00\x01\x00" + bytes(100))
