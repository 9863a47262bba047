"""The compiled backend of loading."""

import random
from functools import cache
from typing import Any

import numpy as np
import pytest

from ottla.groups.log.arrow import loading
from ottla.groups.log.arrow.loading import CompiledBatches, CompiledReducer
from ottla.groups.log.records import OffsetRecord, encode_key, encode_value
from ottla.groups.log.replayed_state import LoadedGroups, ReferenceReducer
from ottla.protocol.arrow import batch_scan
from ottla.protocol.coordinator_records import OffsetValue
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, seal
from ottla.protocol.records.compression import Codec

SLOTS = 64


def tombstones(count: int) -> bytearray:
    keys = [encode_key(OffsetRecord(group_id="g", topic="t", partition=number, value=None)) for number in range(count)]
    return encode_batch([Record(number, 7, key, None) for number, key in enumerate(keys)])


class Reduction:
    """One log with tables for `commits_max` keys; `run` returns the kernel's status."""

    def __init__(self, buffer: bytes, *, commits_max: int, rest_max: int = 8) -> None:
        self.scanned = CompiledBatches(buffer)
        self.strings = (np.full(64, loading.FREE, np.int64), np.empty((32, loading.STRING_COLUMNS), np.int64), np.empty(4096, np.uint8))
        self.commits: Any = (np.full(64, loading.FREE, np.int64), np.empty((commits_max, loading.COMMIT_COLUMNS), np.int64))
        self.rest = np.empty((rest_max, loading.REST_COLUMNS), np.int64)
        self.state = np.zeros(loading.STATE_WORDS, np.int64)
        self.state[loading.CURSOR_AT] = -1

    def run(self) -> int:
        is_read = np.ones(len(self.scanned.table), bool)
        return loading.reduce_batches(self.scanned.source, self.scanned.table, is_read, self.strings, self.commits, self.rest, self.state)


def test_it_stops_where_a_table_is_full_and_continues_there():
    reduction = Reduction(bytes(tombstones(5)), commits_max=3)
    assert reduction.run() == loading.FULL
    assert (reduction.state[loading.COMMITS], reduction.state[loading.CURSOR_LEFT]) == (3, 2)
    slots, rows = reduction.commits
    reduction.commits = (slots, np.concatenate([rows, np.empty_like(rows)]))
    assert reduction.run() == batch_scan.OK
    assert reduction.state[loading.COMMITS] == 5


def test_what_is_no_commit_is_left_to_the_plain_decoder():
    reduction = Reduction(bytes(encode_batch([Record(3, 7, None, b"no key")], base_offset=3)), commits_max=3)
    assert reduction.run() == batch_scan.OK
    assert reduction.rest[0, [loading.REST_KEY_LENGTH, loading.REST_VALUE_LENGTH, loading.REST_OFFSET]].tolist() == [-1, 6, 3]


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


@cache
def log_of(commits: int, codec: Codec = Codec.NONE, per_batch: int = 100) -> bytes:
    """Commits of as many keys with as many metadata, in whole batches."""
    buffer = bytearray()
    for first in range(0, commits, per_batch):
        records = []
        for number in range(first, min(first + per_batch, commits)):
            topic_id = bytes([number % 3]) * 16
            value = OffsetValue(number, 5, f"metadata {number}", 7, topic_id=topic_id)
            record = OffsetRecord(group_id=f"g{number % 7}", topic=f"t{number % 5}", partition=number, value=value)
            records.append(Record(number, 7, encode_key(record), encode_value(record)))
        buffer += encode_batch(records, base_offset=first, codec=codec)
    return bytes(buffer)


def folded(fold: CompiledReducer | ReferenceReducer, buffer: bytes) -> LoadedGroups:
    fold.apply(fold.scan(buffer), skipped=frozenset(), from_offset=0)
    return fold.finish()


@cache
def reference_result(buffer: bytes) -> LoadedGroups:
    return folded(ReferenceReducer(), buffer)


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("group_bytes", [loading.GROUP_BYTES_MAX, 5000])
def test_tables_grow_with_the_log(codec: Codec, group_bytes: int, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(loading, "GROUP_BYTES_MAX", group_bytes)
    buffer = log_of(20 * loading.ROWS_MIN, codec)
    loaded = folded(CompiledReducer(), buffer)
    assert sum(len(partitions) for topics in loaded.replayed.offsets.values() for partitions in topics.values()) == 20 * 1024
    assert loaded == reference_result(buffer)


def test_equal_strings_are_one_object():
    offsets = folded(CompiledReducer(), log_of(70)).replayed.offsets
    (one,) = {id(topic) for topics in offsets.values() for topic in topics if topic == "t0"}
    assert one
    assert all(type(value) is OffsetValue for topics in offsets.values() for found in topics.values() for value in found.values())


def test_records_left_to_the_plain_decoder_are_many():
    records = [Record(number, 7, None, b"") for number in range(3 * loading.ROWS_MIN + 5)]
    loaded = folded(CompiledReducer(), bytes(encode_batch(records)))
    assert len(loaded.problems) == len(records)
    assert loaded.problems[-1] == f"the record at offset {len(records) - 1} is passed over: a record of the offsets topic has no key"


def test_damage_is_refused():
    batch = bytearray(log_of(3))
    batch[22] |= 7  # no such codec
    seal(batch)
    with pytest.raises(PeerError, match="names codec 7"):
        folded(CompiledReducer(), bytes(batch))
    batch = bytearray(log_of(3))
    batch[-1] ^= 1
    with pytest.raises(PeerError, match="does not match its checksum"):
        folded(CompiledReducer(), bytes(batch))


def test_a_damaged_record_ends_the_fold_and_not_the_process():
    batch = bytearray(log_of(3))
    batch[61] ^= 2  # the first record's length
    seal(batch)
    with pytest.raises(PeerError, match="a record that does not fit into its batch"):
        folded(CompiledReducer(), bytes(batch))


def table(columns: int) -> tuple[np.ndarray, np.ndarray]:
    return np.full(SLOTS, loading.FREE, np.int64), np.empty((SLOTS // 2, columns), np.int64)


@pytest.mark.parametrize("seed", [0, 1, 2**62 + 5])
def test_a_string_keeps_its_number(seed: int):
    slots, rows = table(loading.STRING_COLUMNS)
    arena, used = np.empty(4096, np.uint8), np.zeros(3, np.int64)
    rng = random.Random(seed)
    strings = [b"", b"a", b"b", b"12345678", b"123456789", b"12345678\0", bytes(8), bytes(9), *(rng.randbytes(n) for n in range(2, 24))]

    def number(text: bytes) -> int:
        array = np.frombuffer(text + b"?" * 8, np.uint8)
        addresses = (slots.ctypes.data, SLOTS - 1, rows.ctypes.data, arena.ctypes.data, seed)
        return int(loading.string_of(addresses, used.ctypes.data, array.ctypes.data, len(text)))

    assert [number(text) for text in strings] == list(range(len(strings)))
    loading.fill_slots(slots, rows, len(strings))
    assert [number(text) for text in reversed(strings)] == list(reversed(range(len(strings))))
    spans = rows[: len(strings), [loading.STRING_START, loading.STRING_LENGTH]].tolist()
    assert [arena[start : start + length].tobytes() for start, length in spans] == strings
    assert used.tolist() == [len(strings), sum(map(len, strings)), 0]


def test_a_key_keeps_its_row():
    slots, rows = table(loading.COMMIT_COLUMNS)
    used = np.zeros(3, np.int64)
    keys = [(group, topic, partition) for group in (0, 1, 2**31 - 1) for topic in (0, 1) for partition in (0, 1, -1, 2**31 - 1, -(2**31))]

    def row(key: tuple[int, int, int]) -> int:
        address = loading.commit_of((slots.ctypes.data, SLOTS - 1, rows.ctypes.data, 9), used.ctypes.data, *key)
        return (int(address) - rows.ctypes.data) // (8 * loading.COMMIT_COLUMNS)

    assert [row(key) for key in keys] == list(range(len(keys)))
    assert rows[: len(keys), loading.IS_THERE].tolist() == [0] * len(keys)
    loading.fill_slots(slots, rows, len(keys))
    assert [row(key) for key in reversed(keys)] == list(reversed(range(len(keys))))
    assert rows[: len(keys), [loading.GROUP, loading.TOPIC, loading.PARTITION]].tolist() == [list(key) for key in keys]
