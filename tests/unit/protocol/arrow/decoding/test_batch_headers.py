"""The kernels that look at batches: what they write for known bytes, and the status they give for bytes that cannot be."""

import numpy as np
import pytest

from ottla.protocol.arrow.decoding import batch_headers as kernels
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"), Header("empty", None))),
    Record(11, 1_700_000_000_005, None, b"", ()),
    Record(13, 1_699_999_999_000, b"", None, ()),
]


def _scan(buffer: bytes, rows: int = 16) -> tuple[np.ndarray, int, int]:
    table, array = np.empty((rows, kernels.TABLE_COLUMNS), np.int64), np.frombuffer(buffer, np.uint8)
    return table, *kernels.scan_headers(array.ctypes.data, len(array), table.ctypes.data, rows)


def test_scan_fills_one_row_a_batch_and_leaves_out_a_partial_one():
    batch = bytes(encode_batch(RECORDS, base_offset=10, producer_id=7, producer_epoch=0))
    table, count, status = _scan(batch + batch[:-1])
    assert (count, status) == (1, kernels.OK)
    assert table[0, [kernels.POSITION, kernels.END, kernels.BASE_OFFSET, kernels.LAST_OFFSET_DELTA]].tolist() == [
        61,
        len(batch),
        10,
        3,
    ]
    assert table[0, [kernels.RECORD_COUNT, kernels.ATTRIBUTES, kernels.PRODUCER_ID]].tolist() == [3, 0, 7]
    assert table[0, [kernels.BASE_TIMESTAMP_MS, kernels.MAX_TIMESTAMP_MS]].tolist() == [1_700_000_000_000, 1_700_000_000_005]
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
    assert _scan(bytes(batch))[2] == status


def _chosen(buffer: bytes, first: int, end: int) -> tuple[list[int], bool]:
    table, count, _ = _scan(buffer)
    tasks = np.empty(count, np.uint8)
    is_compressed = kernels.choose(table.ctypes.data, count, first, end, tasks.ctypes.data)
    return tasks.tolist(), bool(is_compressed)


def test_batches_outside_the_offsets_are_skipped_and_control_batches_only_checked():
    control = encode_batch([Record(14, 0, b"", b"")], base_offset=14, is_control=True)
    buffer = bytes(encode_batch(RECORDS, base_offset=10) + control + encode_batch([Record(15, 0, None, b"x")], base_offset=15))
    read, check, skip = kernels.READ, kernels.CHECK, kernels.SKIP
    assert _chosen(buffer, 0, 100) == ([read, check, read], False)
    assert _chosen(buffer, 13, 15) == ([read, check, skip], False)
    assert _chosen(buffer, 14, 15) == ([skip, check, skip], False)
    assert _chosen(buffer, 15, 16) == ([skip, skip, read], False)


def test_only_batches_to_read_count_as_compressed():
    plain, packed = encode_batch([Record(0, 0, None, b"x")]), encode_batch([Record(1, 0, None, b"x")], base_offset=1, codec=Codec.LZ4)
    assert _chosen(bytes(plain + packed), 0, 2)[1]
    assert not _chosen(bytes(plain + packed), 0, 1)[1]
