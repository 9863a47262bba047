"""The reference backend: which records stay, and the bytes of what stays."""

import hashlib
import random
import subprocess
import sys
from array import array
from collections.abc import Mapping
from hashlib import md5
from struct import pack, unpack_from

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit

from ottla.log.cleaner import backend as plain
from ottla.log.cleaner.backend import (
    SLOT_BYTES,
    BatchRetention,
    CleaningBackend,
    Filtered,
    OffsetMap,
    ReferenceBackend,
    ReferenceChunk,
    Tombstones,
    probe,
)
from ottla.log.compiled import cleaning as backend
from ottla.log.compiled import cleaning_kernels as compiled
from ottla.log.compiled import cleaning_kernels as kernels
from ottla.log.compiled import cleaning_kernels as table
from ottla.log.compiled.cleaning import CompiledBackend
from ottla.protocol.arrow import batch_scan
from ottla.protocol.arrow.primitives import address_of
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import (
    CODEC_MASK,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    decode_batch,
    empty_batch,
    encode_batch,
    read_header,
    seal,
    split_batches,
)
from ottla.protocol.records.compression import Codec

NOW_MS = 1_000_000
TIMES = Tombstones(now_ms=NOW_MS, delete_retention_ms=500)
HORIZON_MS = 1_000_500


def scan(*batches: bytes | bytearray, marked: tuple[int, ...] = ()) -> ReferenceChunk:
    return ReferenceBackend().scan(b"".join(batches), array("q", marked))


def map_of(latest_offset: int, **offsets: int) -> OffsetMap:
    offset_map = OffsetMap(SLOT_BYTES * 100)
    for key, offset in offsets.items():
        offset_map.put(key.encode(), offset)
    offset_map.latest_offset = latest_offset
    return offset_map


def record(offset: int, key: str | None, value: str | None = "v", timestamp_ms: int | None = None) -> Record:
    def as_bytes(text: str | None) -> bytes | None:
        return None if text is None else text.encode()

    time_ms = 1000 + offset if timestamp_ms is None else timestamp_ms
    return Record(offset, time_ms, as_bytes(key), as_bytes(value), (Header("h", b"\x00"),))


def batch(*records: Record, base_offset: int | None = None, **options: object) -> bytearray:
    return encode_batch(records, base_offset=records[0].offset if base_offset is None else base_offset, **options)  # type: ignore[arg-type]


def filtered(data: bytes | bytearray, offset_map: OffsetMap, retentions: Mapping[int, BatchRetention] | None = None) -> Filtered:
    return scan(data).filter(offset_map, retentions or {}, TIMES)


FOUR = (record(4, "a"), record(5, "b"), record(6, "a"), record(7, None))


def test_a_scan_finds_whole_batches_and_the_size_of_the_next() -> None:
    one, two = batch(*FOUR), batch(record(8, "c"))
    assert (scan(one, two).size_bytes, scan(one, two).next_batch_bytes) == (len(one) + len(two), 0)
    assert (scan(one, two[:61]).size_bytes, scan(one, two[:61]).next_batch_bytes) == (len(one), len(two))
    assert (scan(one, two[:60]).size_bytes, scan(one, two[:60]).next_batch_bytes) == (len(one), 0)
    assert (scan(one[:-1]).size_bytes, scan(one[:-1]).next_batch_bytes) == (0, len(one))
    assert (scan().size_bytes, scan().next_batch_bytes) == (0, 0)


def test_special_are_transactional_and_control_batches_and_those_that_end_at_a_marked_offset() -> None:
    batches = [
        batch(*FOUR),
        batch(record(8, "c"), is_transactional=True),
        batch(record(9, "c"), is_control=True),
        batch(record(10, "c"), record(11, "d")),
        batch(record(12, "c")),
    ]
    at = [0, *(sum(map(len, batches[:number])) for number in range(1, 5))]
    assert scan(*batches).special == [at[1], at[2]]
    assert scan(*batches, marked=(3, 7, 10, 12)).special == [at[0], at[1], at[2], at[4]]


def test_damage_is_found_before_anything_is_done() -> None:
    data = batch(*FOUR)
    data[-1] ^= 1
    with pytest.raises(PeerError, match="checksum"):
        scan(data)


def test_the_index_holds_the_last_offset_of_each_key_and_how_far_it_came() -> None:
    offset_map = map_of(-1)
    assert scan(batch(*FOUR)).index(offset_map, skipped=set(), from_offset=5) == (4, False)
    assert [offset_map.get(key) for key in (b"a", b"b")] == [6, 5]
    assert (offset_map.entries, offset_map.latest_offset) == (2, 7)


def test_the_index_passes_over_what_is_reported_to_be_skipped() -> None:
    one, two, three = batch(*FOUR), batch(record(8, "a"), record(9, "c")), batch(record(10, "d"))
    offset_map = map_of(-1)
    assert scan(one, two, three).index(offset_map, skipped={len(one)}, from_offset=0) == (7, False)
    assert ([offset_map.get(key) for key in (b"a", b"b", b"c", b"d")], offset_map.latest_offset) == ([6, 5, -1, 10], 10)
    offset_map.clear()
    scan(one, two).index(offset_map, skipped={len(one)}, from_offset=0)
    assert offset_map.latest_offset == 9


def test_batches_below_the_first_offset_do_not_count() -> None:
    offset_map = map_of(-1)
    scan(batch(*FOUR)).index(offset_map, skipped=set(), from_offset=8)
    assert (offset_map.entries, offset_map.latest_offset) == (0, -1)


def test_a_full_map_ends_the_index_inside_a_batch() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 3)
    records = [record(0, "a"), record(1, "b"), record(2, None), record(3, "a"), record(4, "c")]
    assert scan(batch(*records)).index(offset_map, skipped=set(), from_offset=0) == (3, True)
    assert offset_map.latest_offset == 1


def test_a_batch_whose_records_all_stay_is_copied() -> None:
    for codec in Codec:
        data = batch(*FOUR[:3], codec=codec)
        assert filtered(data, map_of(7, b=5)) == (data, [6], [1006], [len(data)], 3, 3)


def test_a_batch_of_which_nothing_stays_goes() -> None:
    assert filtered(batch(*FOUR), map_of(9, a=8, b=9)) == (b"", [], [], [], 4, 0)


@pytest.mark.parametrize("codec", list(Codec))
def test_a_batch_of_which_some_stay_is_rebuilt(codec: Codec) -> None:
    options = {"leader_epoch": 3, "producer_id": 7, "producer_epoch": 1, "base_sequence": 20, "codec": codec}
    data = batch(*FOUR, base_offset=2, last_offset=9, **options)
    result = filtered(data, map_of(9, a=6, b=5))
    kept = [FOUR[1], FOUR[2]]
    assert result.data == batch(*kept, base_offset=2, last_offset=9, **options)
    assert result[1:] == ([9], [1006], [len(result.data)], 4, 2)
    assert decode_batch(bytes(result.data)) == kept


def test_what_lies_above_the_map_stays_even_without_a_key() -> None:
    assert decode_batch(bytes(filtered(batch(*FOUR), map_of(5, a=5, b=5)).data)) == list(FOUR[1:])


def test_log_append_time_stays_the_time_of_all() -> None:
    result = filtered(batch(*FOUR, is_log_append_time=True), map_of(9, a=4, b=9))
    assert read_header(bytes(result.data)).max_timestamp_ms == 1007
    assert [each.timestamp_ms for each in decode_batch(bytes(result.data))] == [1007, 1007]


def test_a_tombstone_that_stays_gives_its_batch_a_horizon() -> None:
    data = batch(record(4, "a"), record(5, "b", None))
    result = filtered(data, map_of(9, a=4, b=5))
    assert result.data == batch(record(4, "a"), record(5, "b", None), delete_horizon_ms=HORIZON_MS)
    assert decode_batch(bytes(result.data)) == decode_batch(data)


def test_a_horizon_stays_what_it_was() -> None:
    data = batch(record(4, "a"), record(5, "b", None), record(6, "c"), delete_horizon_ms=NOW_MS + 1)
    assert filtered(data, map_of(9)).data == data
    expected = batch(record(5, "b", None), record(6, "c"), base_offset=4, delete_horizon_ms=NOW_MS + 1)
    assert filtered(data, map_of(9, a=8)).data == expected
    without_tombstones = batch(record(4, "a"), record(6, "c"), delete_horizon_ms=NOW_MS + 1)
    assert filtered(data, map_of(9, b=8)).data == without_tombstones


@pytest.mark.parametrize(("horizon_ms", "left"), [(NOW_MS + 1, [4, 5]), (NOW_MS, [4]), (NOW_MS - 1, [4])])
def test_a_tombstone_goes_when_the_delete_horizon_is_reached(horizon_ms: int, left: list[int]) -> None:
    result = filtered(batch(record(4, "a"), record(5, "b", None), delete_horizon_ms=horizon_ms), map_of(9, a=4, b=5))
    assert [found.offset for found in decode_batch(result.data)] == left


def test_at_the_horizon_tombstones_go() -> None:
    data = batch(record(4, "a"), record(5, "b", None), delete_horizon_ms=NOW_MS)
    assert decode_batch(bytes(filtered(data, map_of(9)).data)) == [record(4, "a")]
    assert filtered(data, map_of(4)).data == data


def test_retentions_rule_over_records() -> None:
    data = batch(*FOUR, producer_id=3)
    gone = map_of(9, a=8, b=9)
    empty = empty_batch(read_header(data))
    result = filtered(data, gone, {0: BatchRetention.FILTER_KEEP})
    assert result == (empty, [7], [1007], [61], 4, 0)
    assert filtered(data, map_of(3), {0: BatchRetention.FILTER_KEEP}).data == data
    assert filtered(data, map_of(3), {0: BatchRetention.DROP}) == (b"", [], [], [], 0, 0)
    assert filtered(data, map_of(3), {0: BatchRetention.EMPTY}) == (empty, [7], [1007], [61], 0, 0)
    assert filtered(data, gone, {0: BatchRetention.KEEP}) == (data, [7], [1007], [len(data)], 0, 4)
    result = filtered(data, gone, {0: BatchRetention.KEEP_UNTIL_HORIZON})
    assert result.data == batch(*FOUR, producer_id=3, delete_horizon_ms=HORIZON_MS)


def test_an_empty_batch_goes_unless_reported_otherwise() -> None:
    empty = empty_batch(read_header(batch(*FOUR)))
    assert filtered(empty, map_of(0)).data == b""
    assert filtered(empty, map_of(0), {0: BatchRetention.FILTER_KEEP}).data == empty


def test_what_stays_is_reported_batch_by_batch() -> None:
    batches = [batch(*FOUR), batch(record(8, "c")), batch(record(9, "c"), record(10, "d", timestamp_ms=5000))]
    result = filtered(b"".join(batches), map_of(10, a=6, b=5, c=9, d=10), {len(batches[0]): BatchRetention.DROP})
    sizes = [header.size_bytes for _, header in split_batches(result.data)]
    assert result[1:] == ([7, 10], [1006, 5000], sizes, 6, 4)


def test_records_that_are_none_are_refused_by_both_passes() -> None:
    data = batch(*FOUR)
    data[61] ^= 0x55
    seal(data)
    with pytest.raises(PeerError):
        scan(data).index(map_of(-1), skipped=set(), from_offset=0)
    with pytest.raises(PeerError):
        filtered(data, map_of(-1))


def test_retentions_are_small_numbers_from_the_ordinary_one_on() -> None:
    assert [retention.value for retention in BatchRetention] == list(range(6))


def test_the_delete_horizon_is_now_and_the_retention_time() -> None:
    assert Tombstones(now_ms=1000, delete_retention_ms=500).horizon_ms == 1500


@pytest.mark.parametrize("backend", [ReferenceBackend(), CompiledBackend()], ids=lambda backend: type(backend).__name__)
def test_the_two_passes(backend: CleaningBackend) -> None:
    first = encode_batch([Record(0, 1000, b"a", b"1"), Record(1, 1000, b"b", b"1")])
    second = encode_batch([Record(2, 1000, b"a", b"2")], base_offset=2, producer_id=1, base_sequence=0)
    buffer, offset_map = bytes(first + second + second[:-1]), OffsetMap(10 * SLOT_BYTES)
    chunk = backend.scan(buffer, array("q", [2]))
    assert (chunk.size_bytes, chunk.next_batch_bytes, list(chunk.special)) == (len(first + second), len(second), [len(first)])
    assert tuple(chunk.index(offset_map, skipped=set(), from_offset=0)) == (3, False)
    assert (offset_map.entries, offset_map.latest_offset, offset_map.get(b"a")) == (2, 2, 2)
    found = chunk.filter(offset_map, {len(first): BatchRetention.KEEP}, Tombstones(0, 0))
    assert bytes(found.data) == encode_batch([Record(1, 1000, b"b", b"1")], base_offset=0) + second
    assert (list(found.last_offsets), list(found.max_timestamps_ms)) == ([1, 2], [1000, 1000])
    assert (sum(found.sizes_bytes), found.records_read, found.records_kept) == (len(found.data), 2, 2)


KEYS = st.binary(max_size=3)


@given(st.lists(st.tuples(KEYS, st.integers(0, 2**63 - 1))), st.lists(KEYS))
def test_it_remembers_what_a_dict_remembers(puts: list[tuple[bytes, int]], others: list[bytes]) -> None:
    offset_map, expected = OffsetMap(SLOT_BYTES * 300), {}
    for key, offset in puts:
        assert offset_map.put(key, offset)
        expected[key] = offset
    assert {key: offset_map.get(key) for key in [*expected, *others]} == {**dict.fromkeys(others, -1), **expected}
    assert offset_map.entries == len(expected)
    assert offset_map.latest_offset == (puts[-1][1] if puts else -1)


def test_a_full_map_refuses_new_keys_and_known_ones_and_keeps_its_size() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 10 + 23)
    assert (offset_map.slots, offset_map.entries_max, len(offset_map.memory)) == (10, 9, 240)
    assert all(offset_map.put(b"%d" % number, number) for number in range(9))
    assert offset_map.is_full
    assert not offset_map.put(b"9", 9)
    assert not offset_map.put(b"8", 9)
    assert (offset_map.get(b"8"), offset_map.get(b"9"), offset_map.entries, offset_map.latest_offset) == (8, -1, 9, 8)
    assert (len(offset_map.memory), offset_map.utilization) == (240, 0.9)


def test_a_cleared_map_is_as_new() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 10)
    offset_map.put(b"k", 7)
    offset_map.clear()
    assert (offset_map.get(b"k"), offset_map.entries, offset_map.latest_offset) == (-1, 0, -1)
    assert not any(bytes(offset_map.memory))


def test_a_slot_is_the_digest_and_the_offset_where_the_first_probe_says() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 10)
    offset_map.put(b"key", 258)
    digest = md5(b"key").digest()
    at = abs(unpack_from(">i", digest)[0]) % 10 * SLOT_BYTES
    assert offset_map.memory[at : at + SLOT_BYTES] == digest + bytes((0, 0, 0, 0, 0, 0, 1, 2))


def test_one_slot_stays_free_so_that_searching_ends() -> None:
    offset_map = OffsetMap(SLOT_BYTES * 3, load_factor=1.0)
    assert [offset_map.put(bytes((number,)), number) for number in range(3)] == [True, True, False]
    assert offset_map.get(b"missing") == -1


def test_a_map_for_no_key_at_all_is_our_own_mistake() -> None:
    with pytest.raises(AssertionError):
        OffsetMap(SLOT_BYTES)


def test_probes_are_the_windows_of_the_digest_and_then_one_after_the_other() -> None:
    digest = bytes(range(16))
    windows = [int.from_bytes(digest[at : at + 4]) for at in range(13)]
    assert [probe(digest, attempt) for attempt in range(13)] == windows
    assert [probe(digest, attempt) for attempt in (13, 14, 20)] == [windows[-1] + 1, windows[-1] + 2, windows[-1] + 8]


def test_probes_wrap_around_in_32_bits() -> None:
    most = bytes(12) + pack(">i", 2**31 - 1)
    assert [probe(most, attempt) for attempt in (12, 13, 14)] == [2**31 - 1, 0, 2**31 - 1]
    negative = bytes(12) + pack(">i", -5)
    assert [probe(negative, attempt) for attempt in (12, 13, 17, 18)] == [5, 4, 0, 1]


TOMBSTONES = Tombstones(now_ms=5000, delete_retention_ms=100)


def _batch(first: int, keys: str, codec: Codec = Codec.NONE, value: bytes | None = b"v") -> bytes:
    records = [Record(first + at, 1000 + at, key.encode(), value) for at, key in enumerate(keys)]
    return bytes(encode_batch(records, base_offset=first, codec=codec))


def _clean(buffer: bytes, retentions: dict[int, BatchRetention] | None = None) -> Filtered:
    chunk, offset_map = CompiledBackend().scan(buffer, array("q")), OffsetMap(100 * SLOT_BYTES)
    chunk.index(offset_map, skipped=frozenset(), from_offset=0)
    return chunk.filter(offset_map, retentions or {}, TOMBSTONES)


def _left(filtered: Filtered) -> list[tuple[int, bytes | None]]:
    data = filtered.data
    return [(record.offset, record.key) for at, _ in split_batches(data) for record in decode_batch(data, at)]


@pytest.mark.parametrize("codec", list(Codec))
def test_the_latest_of_each_key_stays_and_untouched_batches_stay_as_they_are(codec: Codec):
    first, second, third = _batch(0, "ab", codec), _batch(2, "ac", codec), _batch(4, "d", codec)
    filtered = _clean(first + second + third)
    assert _left(filtered) == [(1, b"b"), (2, b"a"), (3, b"c"), (4, b"d")]
    assert bytes(filtered.data).endswith(second + third)
    rebuilt = read_header(filtered.data)
    assert (rebuilt.base_offset, rebuilt.last_offset, rebuilt.record_count, rebuilt.attributes & CODEC_MASK) == (0, 1, 1, codec)
    assert filtered.last_offsets == [1, 3, 4]
    assert filtered.max_timestamps_ms == [1001, 1001, 1000]
    assert filtered.sizes_bytes == [rebuilt.size_bytes, len(second), len(third)]
    assert (filtered.records_read, filtered.records_kept) == (5, 4)


@pytest.mark.parametrize(("horizon_ms", "left"), [(TOMBSTONES.now_ms + 1, [0, 1]), (TOMBSTONES.now_ms, [0]), (TOMBSTONES.now_ms - 1, [0])])
def test_a_tombstone_goes_when_the_delete_horizon_is_reached_in_compiled_code(horizon_ms: int, left: list[int]):
    records = [Record(0, 1000, b"a", b"v"), Record(1, 1001, b"b", None)]
    filtered = _clean(bytes(encode_batch(records, delete_horizon_ms=horizon_ms)))
    assert [offset for offset, _ in _left(filtered)] == left


@pytest.mark.parametrize("group_bytes", [1, 150, 1000])
def test_groups_of_any_size_give_the_same(monkeypatch: pytest.MonkeyPatch, group_bytes: int):
    buffer = b"".join(_batch(2 * at, "ab"[at % 2] + "x", Codec(at % 5)) for at in range(20))
    expected = _clean(buffer)
    monkeypatch.setattr(backend, "GROUP_BYTES_MAX", group_bytes)
    assert _clean(buffer) == expected
    assert _left(expected) == [(36, b"a"), (38, b"b"), (39, b"x")]


def test_a_compressed_batch_that_stays_unread_is_not_expanded():
    damaged = bytearray(_batch(0, "ab", Codec.ZSTD))
    damaged[61:] = bytes(len(damaged) - 61)
    seal(damaged)
    for retention, data in ((BatchRetention.KEEP, bytes(damaged)), (BatchRetention.DROP, b"")):
        chunk = CompiledBackend().scan(bytes(damaged), array("q"))
        assert bytes(chunk.filter(OffsetMap(SLOT_BYTES * 2), {0: retention}, TOMBSTONES).data) == data
    with pytest.raises(PeerError, match="zstd"):
        _clean(bytes(damaged))


def test_a_tombstone_gets_a_horizon_and_the_batch_grows():
    buffer = _batch(0, "abc", value=None)
    filtered = _clean(buffer)
    header = read_header(filtered.data)
    assert (header.attributes & DELETE_HORIZON_BIT, header.base_timestamp_ms) == (DELETE_HORIZON_BIT, 5100)
    assert len(filtered.data) > len(buffer), "the times count from further away"
    assert [record.timestamp_ms for record in decode_batch(filtered.data)] == [1000, 1001, 1002]


def test_a_full_map_ends_the_index_before_what_is_damaged_behind():
    damaged = bytearray(_batch(2, "c"))
    damaged[61] = 0x7E
    seal(damaged)
    offset_map = OffsetMap(3 * SLOT_BYTES, load_factor=0.4)
    indexed = CompiledBackend().scan(_batch(0, "ab") + damaged, array("q")).index(offset_map, skipped=set(), from_offset=0)
    assert (indexed.records, indexed.is_full, offset_map.entries, offset_map.latest_offset) == (1, True, 1, 0)


def test_an_empty_buffer_and_a_part_of_a_header():
    for buffer in (b"", _batch(0, "a")[:60]):
        chunk = CompiledBackend().scan(buffer, array("q"))
        assert (chunk.size_bytes, chunk.next_batch_bytes, list(chunk.special)) == (0, 0, [])
        assert not chunk.filter(OffsetMap(SLOT_BYTES * 2), {}, TOMBSTONES).sizes_bytes


WARMED = """
from ottla.log.compiled import cleaning as backend, cleaning_kernels as kernels
from ottla.protocol.arrow import batch_scan
backend.load_kernels()
entries = [getattr(kernels, name) for name in ("walk", "put_keys", "decide", "write")]
entries += [batch_scan.scan, kernels.md5_keys, kernels.first_slots]
before = [len(entry.signatures) for entry in entries]
from array import array
from ottla.log.cleaner.backend import Tombstones
from ottla.log.cleaner.backend import OffsetMap
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import ZSTD
records = [Record(at, 0, b"k%d" % (at % 2), b"v") for at in range(9)]
buffer = bytes(encode_batch(records, is_transactional=True)) + bytes(encode_batch(records, codec=ZSTD))
for data in (buffer, bytearray(buffer), memoryview(buffer)[len(buffer) // 2 :].toreadonly()[:0]):
    chunk = backend.CompiledBackend().scan(data, array("q", [8]))
    offset_map = OffsetMap(2400)
    chunk.index(offset_map, skipped={0} if chunk.special else set(), from_offset=0)
    chunk.filter(offset_map, {at: 4 for at in chunk.special}, Tombstones(0, 0))
print(before, [len(entry.signatures) for entry in entries] == before)
"""


def test_warming_up_compiles_all_that_a_cleaning_needs():
    result = subprocess.run([sys.executable, "-c", WARMED], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[1, 1, 1, 1, 1, 1, 1] True"


def _md5(keys: list[bytes]) -> list[bytes]:
    buffer = np.frombuffer(b"".join(keys), np.uint8)
    spans, at = np.empty((len(keys), 2), np.int64), 0
    for row, key in enumerate(keys):
        spans[row] = at, len(key)
        at += len(key)
    digests = np.zeros((len(keys), 4), np.uint32)
    compiled.md5_keys(buffer, spans, digests)
    return [row.tobytes() for row in digests]


@pytest.mark.parametrize("shuffled", [False, True])
def test_md5_of_every_length_to_beyond_three_blocks(shuffled: bool):
    rng = random.Random(1)
    keys = [rng.randbytes(length) for length in range(201)]
    if shuffled:  # long and short keys side by side in a vector
        rng.shuffle(keys)
    assert _md5(keys) == [hashlib.md5(key).digest() for key in keys]


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 33])
def test_md5_of_any_number_of_keys(count: int):
    keys = [b"key-%d" % number for number in range(count)]
    assert _md5(keys) == [hashlib.md5(key).digest() for key in keys]


def test_no_key_counts_as_an_empty_one():
    digests = np.zeros((1, 4), np.uint32)
    compiled.md5_keys(np.zeros(1, np.uint8), np.array([[0, -1]], np.int64), digests)
    assert digests.tobytes() == hashlib.md5(b"").digest()


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


@njit
def _put(memory, slots, digest, first, offset):
    return table.put(address_of(memory), slots, address_of(digest), first, offset)


@njit
def _offset_of(memory, slots, digest, first):
    return table.offset_of(address_of(memory), slots, address_of(digest), first)


@njit
def _next(digest, attempt, slots):
    return table._next_slot(address_of(digest), attempt, slots)


def _first(digest: bytes, slots: int) -> int:
    found = np.empty(1, np.int64)
    table.first_slots(np.frombuffer(digest, np.uint64).reshape(1, 2), slots, found)
    return int(found[0])


def test_probes_as_the_plain_map_does():
    rng = random.Random(1)
    # The smallest number has no absolute value in 32 bits, and the last window runs over the largest one.
    corners = [b"\x80" + bytes(15), bytes(12) + b"\x7f\xff\xff\xfe", b"\xff" * 16, bytes(16)]
    for digest in corners + [rng.randbytes(16) for _ in range(200)]:
        for slots in (1, 7, 5592405):
            assert _first(digest, slots) == plain.probe(digest, 0) % slots
            for attempt in range(1, 40):
                assert _next(np.frombuffer(digest, np.uint8), attempt, slots) == plain.probe(digest, attempt) % slots


def test_fills_the_same_slots_until_there_is_one_left(monkeypatch):
    rng = random.Random(2)
    slots = 61
    ours, theirs = np.zeros(slots * SLOT_BYTES, np.uint8), OffsetMap(slots * SLOT_BYTES, load_factor=60.5 / 61)
    digests = [rng.randbytes(16) for _ in range(60)]

    class Md5:
        """The key is its own digest."""

        def __init__(self, key: bytes, **_: object) -> None:
            self.digest = lambda: key

    monkeypatch.setattr(plain, "md5", Md5)
    for offset in range(200):
        digest = digests[offset % 60] if offset < 60 else rng.choice(digests)
        entries = theirs.entries
        theirs.entries_max = 1000  # the plain map refuses known keys too when it is full
        assert theirs.put(digest, offset * 2**40)
        assert _put(ours, slots, np.frombuffer(digest, np.uint8), _first(digest, slots), offset * 2**40) == theirs.entries - entries
    assert ours.tobytes() == bytes(theirs.memory)
    for digest in [*digests, *(rng.randbytes(16) for _ in range(60))]:
        assert _offset_of(ours, slots, np.frombuffer(digest, np.uint8), _first(digest, slots)) == theirs.get(digest)
