"""Whole batches as a table, and the status of bytes that can be none."""

import numpy as np
import pytest

from ottla.protocol.arrow import batch_scan
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import HEADER_BYTES, encode_batch
from ottla.protocol.records.compression import Codec, compress

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"),)),
    Record(11, 1_700_000_000_500, None, b""),
    Record(13, 1_699_999_999_000, b"", None),
]
NONE_MARKED = np.empty(0, np.int64)


def _scan(buffer: bytes, marked: np.ndarray = NONE_MARKED) -> tuple[np.ndarray, int, int, int]:
    array = np.frombuffer(memoryview(buffer).toreadonly(), np.uint8)
    table = np.zeros((len(buffer) // HEADER_BYTES + 1, batch_scan.TABLE_COLUMNS), np.int64)
    batches, end, next_bytes, status = batch_scan.scan(array, marked, table)
    return table[:batches], end, next_bytes, status


def test_a_row_a_batch_and_nothing_for_a_partial_one():
    batch = bytes(encode_batch(RECORDS, base_offset=10, is_transactional=True))
    table, end, next_bytes, status = _scan(batch + batch[:-1])
    assert (len(table), end, next_bytes, status) == (1, len(batch), len(batch), batch_scan.OK)
    assert table[0, [batch_scan.AT, batch_scan.SIZE, batch_scan.START, batch_scan.END]].tolist() == [0, len(batch), 61, len(batch)]
    assert table[0, [batch_scan.BASE_OFFSET, batch_scan.LAST_OFFSET, batch_scan.COUNT]].tolist() == [10, 13, 3]
    assert table[0, [batch_scan.BASE_MS, batch_scan.MAX_MS, batch_scan.ATTRIBUTES, batch_scan.SPECIAL]].tolist() == [
        1_700_000_000_000, 1_700_000_000_500, 16, 1,
    ]  # fmt: skip


def test_marked_offsets_are_special():
    batches = [bytes(encode_batch([Record(at, 0, b"k", b"v")], base_offset=at)) for at in range(5)]
    table, *_ = _scan(b"".join(batches), np.array([1, 4, 9], np.int64))
    assert table[:, batch_scan.SPECIAL].tolist() == [0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    ("at", "data", "status"),
    [
        (16, b"\x01", batch_scan.BAD_MAGIC),
        (8, b"\x00\x00\x00\x30", batch_scan.BAD_HEADER),
        (8, b"\xff\xff\xff\xff", batch_scan.BAD_HEADER),
        (0, b"\xff" * 8, batch_scan.BAD_HEADER),
        (0, b"\x7f" + b"\xff" * 7, batch_scan.BAD_HEADER),
        (23, b"\xff" * 4, batch_scan.BAD_HEADER),
        (57, b"\xff" * 4, batch_scan.BAD_HEADER),
        (70, b"?", batch_scan.BAD_CRC),
    ],
)
def test_scan_refuses_batches_that_cannot_be(at: int, data: bytes, status: int):
    batch = encode_batch(RECORDS, base_offset=10)
    sound = bytes(batch)
    batch[at : at + len(data)] = data
    table, end, _, found = _scan(sound + batch)
    assert (len(table), end, found) == (1, len(sound), status)


def test_a_status_is_an_error_with_its_text():
    batch_scan.check(batch_scan.OK)
    for status, text in enumerate(batch_scan.STATUS_TEXTS):
        if status != batch_scan.OK:
            with pytest.raises(PeerError, match=text):
                batch_scan.check(status)
    assert len(batch_scan.STATUS_TEXTS) == batch_scan.BYTES_LEFT_OVER + 1


def test_plain_bytes_are_passed_on_and_compressed_ones_expanded():
    section = memoryview(b"plain")
    assert batch_scan.expand(section, 0) is section
    assert bytes(batch_scan.expand(memoryview(compress(Codec.LZ4, b"plain")), 3)) == b"plain"
    with pytest.raises(PeerError, match="codec 7"):
        batch_scan.expand(section, 7)
