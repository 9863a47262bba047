"""The backend's words: what compiled code counts on, and both backends under the one protocol."""

from array import array

import pytest

from ottla.columnar.cleaning.backend import CompiledBackend
from ottla.core.cleaning.backend import BatchRetention, CleaningBackend, Tombstones
from ottla.core.cleaning.offset_map import SLOT_BYTES, OffsetMap
from ottla.core.cleaning.reference import ReferenceBackend
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch


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
