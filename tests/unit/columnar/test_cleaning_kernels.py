"""The cleaner's kernels alone: the tables that they fill for known bytes, and the status that they give for bytes that cannot be."""

import numpy as np
import pytest

from ottla.columnar import cleaning_kernels as kernels
from ottla.core.model import Header, Record
from ottla.core.records.batch import HEADER_BYTES, encode_batch, seal

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"),)),
    Record(11, 1_700_000_000_500, None, b""),
    Record(13, 1_699_999_999_000, b"", None),
]
NONE_MARKED = np.empty(0, np.int64)


def _survey(buffer: bytes, marked: np.ndarray = NONE_MARKED) -> tuple[np.ndarray, int, int, int]:
    array = np.frombuffer(memoryview(buffer).toreadonly(), np.uint8)
    table = np.zeros((len(buffer) // HEADER_BYTES + 1, kernels.TABLE_COLUMNS), np.int64)
    batches, end, next_bytes, status = kernels.survey(array, marked, table)
    return table[:batches], end, next_bytes, status


def _walk(buffer: bytes) -> tuple[np.ndarray, int]:
    table, _, _, status = _survey(buffer)
    assert status == kernels.OK
    records = np.zeros((16, kernels.RECORD_COLUMNS), np.int64)
    array = np.frombuffer(memoryview(buffer).toreadonly(), np.uint8)
    rows, _, status = kernels.walk(array, table, np.ones(len(table), bool), records)
    return records[:rows], status


def test_a_row_a_batch_and_a_row_a_record():
    batch = bytes(encode_batch(RECORDS, base_offset=10, is_transactional=True))
    table, end, next_bytes, status = _survey(batch + batch[:-1])
    assert (len(table), end, next_bytes, status) == (1, len(batch), len(batch), kernels.OK)
    assert table[0, [kernels.AT, kernels.SIZE, kernels.START, kernels.END]].tolist() == [0, len(batch), 61, len(batch)]
    assert table[0, [kernels.BASE_OFFSET, kernels.LAST_OFFSET, kernels.COUNT]].tolist() == [10, 13, 3]
    assert table[0, [kernels.BASE_MS, kernels.MAX_MS, kernels.ATTRIBUTES, kernels.SPECIAL]].tolist() == [
        1_700_000_000_000, 1_700_000_000_500, 16, 1,
    ]  # fmt: skip
    records, status = _walk(batch)
    assert status == kernels.OK
    assert records[:, [kernels.OFFSET, kernels.TIME_MS]].tolist() == [[record.offset, record.timestamp_ms] for record in RECORDS]
    assert records[:, [kernels.KEY_LENGTH, kernels.HAS_VALUE]].tolist() == [[3, 1], [-1, 1], [0, 0]]
    assert batch[records[0, kernels.KEY_AT] :][:3] == b"key"
    assert batch[records[2, kernels.REST_AT] : records[2, kernels.RECORD_END]] == b"\x00\x01\x00"


def test_marked_offsets_are_special():
    batches = [bytes(encode_batch([Record(at, 0, b"k", b"v")], base_offset=at)) for at in range(5)]
    table, *_ = _survey(b"".join(batches), np.array([1, 4, 9], np.int64))
    assert table[:, kernels.SPECIAL].tolist() == [0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("at", "data", "status"),
    [
        (16, b"\x01", kernels.BAD_MAGIC),
        (8, b"\x00\x00\x00\x30", kernels.BAD_HEADER),
        (8, b"\xff\xff\xff\xff", kernels.BAD_HEADER),
        (0, b"\xff" * 8, kernels.BAD_HEADER),
        (0, b"\x7f" + b"\xff" * 7, kernels.BAD_HEADER),
        (23, b"\xff" * 4, kernels.BAD_HEADER),
        (57, b"\xff" * 4, kernels.BAD_HEADER),
        (70, b"?", kernels.BAD_CRC),
    ],
)
def test_survey_refuses_batches_that_cannot_be(at: int, data: bytes, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    sound = bytes(batch)
    batch[at : at + len(data)] = data
    table, end, _, found = _survey(sound + batch)
    assert (len(table), end, found) == (1, len(sound), status)


@pytest.mark.parametrize(
    ("at", "data", "status"),
    [
        (57, b"\x00\x00\x10\x00", kernels.BAD_COUNT),
        (57, b"\x00\x00\x00\x02", kernels.BYTES_LEFT_OVER),
        (61, b"\x7e", kernels.BAD_RECORD),  # a record that ends behind the next one's beginning
        (61, b"\xff\xff\xff\xff\xff", kernels.BAD_RECORD),
        (64, b"\x08", kernels.BAD_RECORD),  # an offset behind the batch's last one
        (65, b"\x70", kernels.BAD_RECORD),  # a key longer than its record
        (65, b"\x03", kernels.BAD_RECORD),
        (69, b"\x70", kernels.BAD_RECORD),  # a value longer than its record
        (27, b"\x7f\xff\xff\xff\xff\xff\xff\xff", kernels.BAD_TIMESTAMP),
    ],
)
def test_walk_refuses_records_that_cannot_be(at: int, data: bytes, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    batch[at : at + len(data)] = data
    seal(batch)
    assert _walk(bytes(batch))[1] == status


def test_no_kernel_holds_the_interpreters_lock_or_raises():
    for kernel in (kernels.survey, kernels.walk, kernels.put_keys, kernels.decide, kernels.write):
        assert kernel.targetoptions["nogil"]
    assert len(kernels.STATUS_TEXTS) == kernels.BYTES_LEFT_OVER + 1
