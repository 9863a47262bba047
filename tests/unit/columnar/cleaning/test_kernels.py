"""The cleaner's kernels alone: the tables that they fill for known bytes, and the status that they give for bytes that cannot be."""

import numpy as np
import pytest

from ottla.columnar.cleaning import kernels as kernels
from ottla.columnar.primitives import batch_scan
from ottla.core.model import Header, Record
from ottla.core.records.batch import HEADER_BYTES, encode_batch, seal

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"),)),
    Record(11, 1_700_000_000_500, None, b""),
    Record(13, 1_699_999_999_000, b"", None),
]


def _walk(buffer: bytes) -> tuple[np.ndarray, int]:
    array = np.frombuffer(memoryview(buffer).toreadonly(), np.uint8)
    table = np.zeros((len(buffer) // HEADER_BYTES + 1, batch_scan.TABLE_COLUMNS), np.int64)
    batches, _, _, status = batch_scan.scan(array, np.empty(0, np.int64), table)
    assert status == batch_scan.OK
    table = table[:batches]
    records = np.zeros((16, kernels.RECORD_COLUMNS), np.int64)
    rows, _, status = kernels.walk(array, table, np.ones(len(table), bool), records)
    return records[:rows], status


def test_a_row_a_record():
    batch = bytes(encode_batch(RECORDS, base_offset=10, is_transactional=True))
    records, status = _walk(batch)
    assert status == batch_scan.OK
    assert records[:, [kernels.OFFSET, kernels.TIME_MS]].tolist() == [[record.offset, record.timestamp_ms] for record in RECORDS]
    assert records[:, [kernels.KEY_LENGTH, kernels.HAS_VALUE]].tolist() == [[3, 1], [-1, 1], [0, 0]]
    assert batch[records[0, kernels.KEY_AT] :][:3] == b"key"
    assert batch[records[2, kernels.REST_AT] : records[2, kernels.RECORD_END]] == b"\x00\x01\x00"


@pytest.mark.parametrize(
    ("at", "data", "status"),
    [
        (57, b"\x00\x00\x10\x00", batch_scan.BAD_COUNT),
        (57, b"\x00\x00\x00\x02", batch_scan.BYTES_LEFT_OVER),
        (61, b"\x7e", batch_scan.BAD_RECORD),  # a record that ends behind the next one's beginning
        (61, b"\xff\xff\xff\xff\xff", batch_scan.BAD_RECORD),
        (64, b"\x08", batch_scan.BAD_RECORD),  # an offset behind the batch's last one
        (65, b"\x70", batch_scan.BAD_RECORD),  # a key longer than its record
        (65, b"\x03", batch_scan.BAD_RECORD),
        (69, b"\x70", batch_scan.BAD_RECORD),  # a value longer than its record
        (27, b"\x7f\xff\xff\xff\xff\xff\xff\xff", batch_scan.BAD_TIMESTAMP),
    ],
)
def test_walk_refuses_records_that_cannot_be(at: int, data: bytes, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    batch[at : at + len(data)] = data
    seal(batch)
    assert _walk(bytes(batch))[1] == status


def test_no_kernel_holds_the_interpreters_lock_or_raises():
    for kernel in (batch_scan.scan, kernels.walk, kernels.put_keys, kernels.decide, kernels.write):
        assert kernel.targetoptions["nogil"]
