"""What only the compiled backend does: groups, codecs, what is compiled when. That it equals the reference backend: tests/properties."""

import subprocess
import sys
from array import array

import pytest

from ottla.columnar.cleaning import backend
from ottla.columnar.cleaning.backend import CompiledBackend
from ottla.core.cleaning.backend import BatchRetention, Filtered, Tombstones
from ottla.core.cleaning.offset_map import SLOT_BYTES, OffsetMap
from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.batch import CODEC_MASK, DELETE_HORIZON_BIT, decode_batch, encode_batch, read_header, seal, split_batches
from ottla.core.records.compression import Codec

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
def test_a_tombstone_goes_when_the_delete_horizon_is_reached(horizon_ms: int, left: list[int]):
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
from ottla.columnar.cleaning import backend, digests, kernels, offset_table
from ottla.columnar.primitives import batch_scan
backend.load_kernels()
entries = [getattr(kernels, name) for name in ("walk", "put_keys", "decide", "write")]
entries += [batch_scan.scan, digests.md5_keys, offset_table.first_slots]
before = [len(entry.signatures) for entry in entries]
from array import array
from ottla.core.cleaning.backend import Tombstones
from ottla.core.cleaning.offset_map import OffsetMap
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.core.records.compression import ZSTD
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
