"""The kernels alone: what they write for known bytes, and the status they give for bytes that cannot be."""

import numpy as np
import pytest

from ottla.columnar import kernels
from ottla.core.model import Header, Record
from ottla.core.records.batch import HEADER_BYTES, encode_batch, seal

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"), Header("empty", None))),
    Record(11, 1_700_000_000_005, None, b"", ()),
    Record(13, 1_699_999_999_000, b"", None, ()),
]


def _scan(buffer: bytes, rows: int = 16) -> tuple[np.ndarray, int, int, int]:
    table = np.empty((rows, kernels.TABLE_COLUMNS), np.int64)
    return table, *kernels.scan_headers(np.frombuffer(buffer, np.uint8), table)


def _parse(buffer: bytes, rows_max: int = 16, cursor: np.ndarray | None = None):
    table, count, _, status = _scan(buffer)
    assert status == kernels.OK
    cursor = np.array([0, -1, 0], np.int64) if cursor is None else cursor
    columns = (np.zeros(rows_max, np.int64), np.zeros(rows_max, np.int64), np.zeros(rows_max, np.int32))
    spans, totals = np.zeros((rows_max, 6), np.int64), np.zeros(5, np.int64)
    array = np.frombuffer(buffer, np.uint8)
    rows, status = kernels.parse_records(array, table[:count], (0, 2**63 - 1), cursor, columns, spans, totals)
    return rows, status, columns, spans, totals


def test_scan_fills_one_row_a_batch_and_leaves_out_a_partial_one():
    batch = bytes(encode_batch(RECORDS, base_offset=10))
    table, count, next_offset, status = _scan(batch + batch[:-1])
    assert (count, next_offset, status) == (1, 14, kernels.OK)
    assert table[0, [kernels.POSITION, kernels.END, kernels.BASE_OFFSET, kernels.LAST_OFFSET_DELTA]].tolist() == [61, len(batch), 10, 3]
    assert table[0, [kernels.RECORD_COUNT, kernels.ATTRIBUTES]].tolist() == [3, 0]
    assert table[0, kernels.CRC] == int.from_bytes(batch[17:21])


def test_scan_counts_on_when_the_table_is_full():
    batch = bytes(encode_batch(RECORDS, base_offset=10))
    assert _scan(batch * 5, rows=2)[1] == 5


@pytest.mark.parametrize(
    ("at", "data", "status"),
    [
        (16, b"\x01", kernels.BAD_MAGIC),
        (8, b"\x00\x00\x00\x30", kernels.BAD_LENGTH),
        (8, b"\xff\xff\xff\xff", kernels.BAD_LENGTH),
        (0, b"\xff" * 8, kernels.BAD_NUMBER),
        (0, b"\x7f" + b"\xff" * 7, kernels.BAD_NUMBER),
        (23, b"\xff" * 4, kernels.BAD_NUMBER),
        (57, b"\xff" * 4, kernels.BAD_NUMBER),
    ],
)
def test_scan_refuses_headers_that_cannot_be(at: int, data: bytes, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    batch[at : at + len(data)] = data
    assert _scan(bytes(batch))[3] == status


def test_parse_writes_columns_spans_and_totals():
    batch = bytes(encode_batch(RECORDS, base_offset=10))
    rows, status, columns, spans, totals = _parse(batch)
    assert (rows, status) == (3, kernels.OK)
    assert columns[0][:3].tolist() == [10, 11, 13]
    assert columns[1][:3].tolist() == [1_700_000_000_000_000, 1_700_000_000_005_000, 1_699_999_999_000_000]
    assert [batch[span[0] : span[0] + span[1]] for span in spans[:3] if span[1] >= 0] == [b"key", b""]
    assert spans[:3, 1].tolist() == [3, -1, 0]
    assert spans[:3, 3].tolist() == [5, 0, -1]
    assert spans[:3, 5].tolist() == [2, 0, 0]
    assert totals.tolist() == [3, 5, 2, 6, 1]


def test_parse_goes_on_where_it_stopped():
    batch = bytes(encode_batch(RECORDS, base_offset=10))
    cursor, seen = np.array([0, -1, 0], np.int64), []
    for _ in range(3):
        rows, status, columns, _, _ = _parse(batch, 1, cursor)
        assert (rows, status) == (1, kernels.OK)
        seen.append(int(columns[0][0]))
    assert seen == [10, 11, 13]
    assert cursor[kernels.CURSOR_BATCH] == 1


@pytest.mark.parametrize(
    ("section", "count", "status"),
    [
        (b"\x0e\x00\x00\x00\x01\x01\x00\x00", 1, kernels.BAD_HEADERS),  # one byte behind the headers of a record
        (b"\x0c\x00\x00\x00\x01\x01\x00\x00", 1, kernels.BYTES_LEFT_OVER),
        (b"\x0c\x00\x00\x00\x01\x01\x00", 2, kernels.BAD_RECORD),
        (b"\x0c\x00\x00\x00\x01\x7e\x00", 1, kernels.BAD_RECORD),  # a value of 63 bytes
        (b"\x0c\x00\x00\x00\x03\x01\x00", 1, kernels.BAD_RECORD),  # a key of -2 bytes
        (b"\x0c\x00\x00\x01\x01\x01\x00", 1, kernels.BAD_RECORD),  # offset delta -1
        (b"\x0c\x00\x00\x08\x01\x01\x00", 1, kernels.BAD_RECORD),  # offset delta 4 after the last one
        (b"\x0c\x00\x00\x00\x01\x01\x01", 1, kernels.BAD_HEADERS),  # -1 headers
        (b"\x0c\x00\x00\x00\x01\x01\x7e", 1, kernels.BAD_HEADERS),  # 63 headers
        (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1, kernels.BAD_HEADERS),  # a header key that is null
        (b"\xff\xff\xff\xff\xff\xff\xff", 1, kernels.BAD_RECORD),
        (b"\x1e\x00" + b"\xff" * 9 + b"\x01\x00\x01\x01\x00", 1, kernels.BAD_TIMESTAMP),
        (b"\x1e\x00" + b"\xff" * 9 + b"\x02\x00\x01\x01\x00", 1, kernels.BAD_RECORD),  # 65 bits
    ],
)
def test_parse_refuses_records_that_cannot_be(section: bytes, count: int, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    batch[57:61] = count.to_bytes(4)
    batch[HEADER_BYTES:] = section
    batch[8:12] = (len(batch) - 12).to_bytes(4)
    assert _parse(bytes(batch))[1] == status


@pytest.mark.parametrize("at", [27, 35])
@pytest.mark.parametrize("timestamp_ms", [-(2**63), 2**63 - 1, 2**63 // 1000 + 1])
def test_timestamps_beyond_microseconds_are_refused(at: int, timestamp_ms: int):
    batch = encode_batch(RECORDS, base_offset=10, is_log_append_time=at == 35)
    batch[at : at + 8] = timestamp_ms.to_bytes(8, signed=True)
    seal(batch)
    assert _parse(bytes(batch))[:2] == (0, kernels.BAD_TIMESTAMP)
