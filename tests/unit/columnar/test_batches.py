"""Groups of batches: which are kept, how large they get, what is refused before a kernel sees it."""

import pytest

from ottla.columnar import batches as columnar_batches
from ottla.columnar import kernels
from ottla.columnar.batches import groups, scan
from ottla.core.errors import PeerError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, seal
from ottla.core.records.compression import Codec

EVERYTHING = (0, 2**63 - 1)


def _batch(base_offset: int, count: int = 1, size: int = 10, **options) -> bytearray:
    records = [Record(base_offset + i, 1_700_000_000_000, None, bytes(size)) for i in range(count)]
    return encode_batch(records, base_offset=base_offset, **options)


def _base_offsets(group) -> list[int]:
    return group.table[:, kernels.BASE_OFFSET].tolist()


def test_next_offset_is_where_the_next_fetch_goes_on():
    assert scan(_batch(0) + _batch(5, 3)).next_offset == 8
    assert scan(b"").next_offset is None
    assert scan(_batch(0)[:-1]).next_offset is None


def test_more_batches_than_the_first_table_holds():
    assert len(scan(b"".join(_batch(i) for i in range(300))).table) == 300


def test_batches_outside_the_bounds_and_control_batches_are_left_out():
    buffer = _batch(0, 2) + _batch(2, 2) + _batch(4, is_control=True) + _batch(5, 2) + _batch(7)
    assert [_base_offsets(group) for group in groups(scan(buffer), (3, 7), 100)] == [[2, 5]]


def test_groups_keep_to_the_rows_and_bytes(monkeypatch: pytest.MonkeyPatch):
    buffer = b"".join(_batch(10 * i, 10) for i in range(5)) + _batch(50, 35) + _batch(85)
    assert [_base_offsets(group) for group in groups(scan(buffer), EVERYTHING, 25)] == [[0, 10], [20, 30], [40], [50], [85]]
    monkeypatch.setattr(columnar_batches, "GROUP_BYTES_MAX", 2 * len(_batch(0, 10)))
    assert [_base_offsets(group) for group in groups(scan(buffer), EVERYTHING, 1000)] == [[0, 10], [20, 30], [40], [50], [85]]


@pytest.mark.parametrize("codec", list(Codec))
def test_compressed_and_plain_batches_share_a_group(codec: Codec):
    buffer = _batch(0, 3) + _batch(3, 4, codec=codec) + _batch(7, 2)
    (group,) = groups(scan(buffer), EVERYTHING, 100)
    assert _base_offsets(group) == [0, 3, 7]
    assert len({int(row[kernels.END]) - int(row[kernels.POSITION]) for row in group.table[[0, 2]]}) == 2
    assert group.buffer[group.table[1, kernels.END] - 10 : group.table[1, kernels.END] - 1].tolist() == [0] * 9


@pytest.mark.parametrize("position", [21, 61, -1])
def test_a_changed_byte_is_found_by_the_checksum(position: int):
    buffer = _batch(0, 3)
    buffer[position] ^= 0x40
    with pytest.raises(PeerError, match="CRC-32C of the record batch at offset 0"):
        list(groups(scan(buffer), EVERYTHING, 100))


def test_a_count_that_cannot_fit_sizes_no_array():
    buffer = _batch(0, 3)
    buffer[57:61] = (2**31 - 1).to_bytes(4)
    seal(buffer)
    with pytest.raises(PeerError, match="2147483647 records declared in "):
        list(groups(scan(buffer), EVERYTHING, 100))


def test_compressed_bytes_that_grow_too_large_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columnar_batches, "DECOMPRESSED_BYTES_MAX", 1000)
    with pytest.raises(PeerError, match="more than 1000 bytes"):
        list(groups(scan(_batch(0, 3, 1000, codec=Codec.ZSTD)), EVERYTHING, 100))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist_are_refused(codec: int):
    buffer = _batch(0)
    buffer[22] |= codec
    seal(buffer)
    with pytest.raises(PeerError, match=f"codec {codec}"):
        list(groups(scan(buffer), EVERYTHING, 100))


def test_bytes_that_are_no_batches_are_refused():
    with pytest.raises(PeerError, match="older than v2"):
        scan(bytes(8) + b"\x00\x00\x01\x00" + bytes(100))
