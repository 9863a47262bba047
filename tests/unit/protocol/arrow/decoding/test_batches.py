"""Which batches a slice has, which are read, where their plain bytes are, and what is refused before a record is read."""

import pytest

from ottla.protocol.arrow.decoding import batch_headers as kernels
from ottla.protocol.arrow.decoding import batches as columnar_batches
from ottla.protocol.arrow.decoding.batches import scan, slices
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch, seal
from ottla.protocol.records.compression import Codec

EVERYTHING = (0, 2**63 - 1)


def _batch(base_offset: int, count: int = 1, size: int = 10, **options) -> bytearray:
    records = [Record(base_offset + i, 1_700_000_000_000, None, bytes(size)) for i in range(count)]
    return encode_batch(records, base_offset=base_offset, **options)


def _read(part) -> list[tuple[int, bytes]]:
    """Base offset and plain record bytes of each batch that is to be read."""
    rows = part.table[part.tasks == kernels.READ].tolist()
    return [(row[kernels.BASE_OFFSET], bytes(memoryview(part.source)[row[kernels.POSITION] : row[kernels.END]])) for row in rows]


def test_next_offset_is_where_the_next_fetch_goes_on():
    assert scan(_batch(0) + _batch(5, 3)).next_offset == 8
    assert scan(b"").next_offset is None
    assert scan(_batch(0)[:-1]).next_offset is None


def test_more_batches_than_the_first_table_holds():
    assert len(scan(b"".join(_batch(i) for i in range(300))).table) == 300


def test_plain_batches_are_one_slice_of_the_fetched_buffer():
    buffer = bytes(_batch(0, 2) + _batch(2, 2) + _batch(4, is_control=True) + _batch(5, 2) + _batch(7))
    (part,) = slices(scan(buffer), (3, 7))
    assert [base for base, _ in _read(part)] == [2, 5]
    assert part.source.obj is buffer
    assert (part.rows_max, part.bytes_max, part.is_checked) == (8, len(buffer), False)
    assert list(slices(scan(b""), EVERYTHING)) == []


def test_aborted_transactions_are_not_read():
    buffer = _batch(0, is_transactional=True, producer_id=1) + _batch(1, is_transactional=True, producer_id=2)
    assert [[base for base, _ in _read(part)] for part in slices(scan(buffer), EVERYTHING, [(1, 0)])] == [[1]]


@pytest.mark.parametrize("codec", list(Codec))
def test_a_compressed_batch_among_plain_ones(codec: Codec):
    plain = _batch(0, 3)[61:]
    buffer = _batch(0, 3) + _batch(3, 3, codec=codec) + _batch(6, 3)
    assert [_read(part) for part in slices(scan(buffer), EVERYTHING)] == [[(0, plain), (3, plain), (6, plain)]]


def test_slices_end_when_they_are_large_and_when_there_is_no_room(monkeypatch: pytest.MonkeyPatch):
    buffer = b"".join(_batch(10 * i, 10, codec=Codec.LZ4) for i in range(5)) + _batch(50, 100, codec=Codec.LZ4) + _batch(150)
    small, large = len(_batch(0, 10)) - 61, len(_batch(0, 100)) - 61
    monkeypatch.setattr(columnar_batches, "SLICE_BYTES", 2 * small)
    assert [[base for base, _ in _read(part)] for part in slices(scan(buffer), EVERYTHING)] == [[0, 10], [20, 30], [40, 50], [150]]
    monkeypatch.setattr(columnar_batches, "SLICE_BYTES", 3 * small)
    monkeypatch.setattr(columnar_batches, "_idle_arenas", [])
    monkeypatch.setattr(columnar_batches, "ARENA_BYTES_MIN", 2 * small + 1)
    read = [_read(part) for part in slices(scan(buffer), EVERYTHING)]
    assert [[base for base, _ in part] for part in read] == [[0, 10], [20, 30], [40], [50], [150]]
    assert len(read[3][0][1]) == large


def test_memory_is_used_again_but_not_by_two_at_a_time():
    packed = scan(_batch(0, 3, codec=Codec.LZ4))
    first, second = slices(packed, EVERYTHING), slices(packed, EVERYTHING)
    one, other = next(first), next(second)
    assert one.source is not other.source
    assert list(first) == list(second) == []
    assert any(next(slices(packed, EVERYTHING)).source is source for source in (one.source, other.source))


@pytest.mark.parametrize("position", [21, 61, -1])
def test_a_changed_byte_is_found_by_the_checksum(position: int):
    buffer = _batch(0, codec=Codec.LZ4) + _batch(1, 3, codec=Codec.LZ4)
    buffer[len(_batch(0, codec=Codec.LZ4)) + position if position > 0 else position] ^= 0x40
    found = slices(scan(buffer), EVERYTHING)
    assert [base for base, _ in _read(next(found))] == [0]
    with pytest.raises(PeerError, match="CRC-32C of the record batch at offset 1"):
        next(found)


def test_compressed_bytes_that_grow_too_large_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columnar_batches, "DECOMPRESSED_BYTES_MAX", 1000)
    with pytest.raises(PeerError, match="more than 1000 bytes"):
        list(slices(scan(_batch(0, codec=Codec.ZSTD) + _batch(1, 3, 1000, codec=Codec.ZSTD)), EVERYTHING))


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_codecs_that_do_not_exist_are_refused(codec: int):
    buffer = _batch(0)
    buffer[22] |= codec
    seal(buffer)
    with pytest.raises(PeerError, match=f"codec {codec}"):
        list(slices(scan(buffer), EVERYTHING))


def test_bytes_that_are_no_batches_are_refused():
    with pytest.raises(PeerError, match="older than v2"):
        scan(bytes(8) + b"\x00\x00\x01\x00" + bytes(100))
