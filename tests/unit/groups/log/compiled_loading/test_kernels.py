"""The kernel alone: where it stops, and that it continues there. Its results: test_reducer and tests/properties."""

from typing import Any

import numpy as np
import pytest

from ottla.groups.log.compiled_loading import kernels, tables
from ottla.groups.log.compiled_loading.reducer import CompiledBatches
from ottla.groups.log.records import OffsetRecord, encode_key
from ottla.protocol.arrow import batch_scan
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, seal


def tombstones(count: int) -> bytearray:
    keys = [encode_key(OffsetRecord(group_id="g", topic="t", partition=number, value=None)) for number in range(count)]
    return encode_batch([Record(number, 7, key, None) for number, key in enumerate(keys)])


class Reduction:
    """One log with tables for `commits_max` keys; `run` returns the kernel's status."""

    def __init__(self, buffer: bytes, *, commits_max: int, rest_max: int = 8) -> None:
        self.scanned = CompiledBatches(buffer)
        self.strings = (np.full(64, tables.FREE, np.int64), np.empty((32, tables.STRING_COLUMNS), np.int64), np.empty(4096, np.uint8))
        self.commits: Any = (np.full(64, tables.FREE, np.int64), np.empty((commits_max, tables.COMMIT_COLUMNS), np.int64))
        self.rest = np.empty((rest_max, kernels.REST_COLUMNS), np.int64)
        self.state = np.zeros(kernels.STATE_WORDS, np.int64)
        self.state[kernels.CURSOR_AT] = -1

    def run(self) -> int:
        is_read = np.ones(len(self.scanned.table), bool)
        return kernels.reduce_batches(self.scanned.source, self.scanned.table, is_read, self.strings, self.commits, self.rest, self.state)


def test_it_stops_where_a_table_is_full_and_continues_there():
    reduction = Reduction(bytes(tombstones(5)), commits_max=3)
    assert reduction.run() == kernels.FULL
    assert (reduction.state[tables.COMMITS], reduction.state[kernels.CURSOR_LEFT]) == (3, 2)
    slots, rows = reduction.commits
    reduction.commits = (slots, np.concatenate([rows, np.empty_like(rows)]))
    assert reduction.run() == batch_scan.OK
    assert reduction.state[tables.COMMITS] == 5


def test_what_is_no_commit_is_left_to_the_plain_decoder():
    reduction = Reduction(bytes(encode_batch([Record(3, 7, None, b"no key")], base_offset=3)), commits_max=3)
    assert reduction.run() == batch_scan.OK
    assert reduction.rest[0, [kernels.REST_KEY_LENGTH, kernels.REST_VALUE_LENGTH, kernels.REST_OFFSET]].tolist() == [-1, 6, 3]


@pytest.mark.parametrize(
    ("at", "data", "status"),
    [
        (57, b"\x00\x00\x10\x00", batch_scan.BAD_COUNT),
        (57, b"\x00\x00\x00\x01", batch_scan.BYTES_LEFT_OVER),
        (61, b"\x7e", batch_scan.BAD_RECORD),
    ],
)
def test_damage_has_a_status(at: int, data: bytes, status: int):
    batch = tombstones(2)
    batch[at : at + len(data)] = data
    seal(batch)
    assert Reduction(bytes(batch), commits_max=3).run() == status
