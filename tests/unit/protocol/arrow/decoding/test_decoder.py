"""When Arrow batches end: at the row limit, when a buffer is full, at the end of a slice; and records that are larger than any buffer."""

import pyarrow as pa
import pytest

from ottla.columnar import RecordBatchDecoder
from ottla.protocol.arrow.decoding import arrow_buffers
from ottla.protocol.arrow.decoding import batches as columnar_batches
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch, seal
from ottla.protocol.records.compression import Codec


def _batches(buffer: bytes, columns: tuple[str, ...] = ("value",), rows_max: int = 1000) -> list[pa.RecordBatch]:
    return list(RecordBatchDecoder("t", 0, columns=columns, rows_max=rows_max).decode(buffer))


def _log(*sizes: int, **options) -> bytes:
    parts = [encode_batch([Record(number, 0, None, bytes(size))], base_offset=number, **options) for number, size in enumerate(sizes)]
    return b"".join(parts)


def test_a_batch_ends_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow_buffers, "BYTES_MAX", 1000)
    found = _batches(_log(400, 400, 400, 999, 0, 1, 5))
    assert [batch.num_rows for batch in found] == [2, 1, 3, 1]
    assert [len(value) for batch in found for value in batch["value"].to_pylist()] == [400, 400, 400, 999, 0, 1, 5]


def test_a_record_that_is_larger_stands_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(arrow_buffers, "BYTES_MAX", 1000)
    for options in ({}, {"codec": Codec.ZSTD}):
        found = _batches(_log(10, 5000, 10, **options), ("key", "value"))
        assert [[len(value) for value in batch["value"].to_pylist()] for batch in found] == [[10], [5000], [10]]


def test_rows_of_many_pieces_are_one_batch_unless_they_point_into_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(columnar_batches, "SLICE_BYTES", 1)
    records = [Record(number, 0, None, b"v", (Header("h", b"%d" % number),)) for number in range(3)]
    buffer = b"".join(encode_batch([record], base_offset=record.offset, codec=Codec.LZ4) for record in records)
    assert [batch.num_rows for batch in _batches(buffer)] == [3]
    found = _batches(buffer, ("headers",))
    assert [batch["headers"].to_pylist() for batch in found] == [[[{"key": "h", "value": b"%d" % number}]] for number in range(3)]


def test_a_bad_batch_comes_after_the_rows_before_it():
    bad = encode_batch([Record(1, 0, None, b"x"), Record(2, 0, None, b"y")], base_offset=1)
    bad[57:61] = (3000).to_bytes(4)
    seal(bad)
    found = RecordBatchDecoder("t", 0, columns=("offset",)).decode(_log(1) + bad)
    assert next(found)["offset"].to_pylist() == [0]
    with pytest.raises(PeerError, match="3000 records declared in 16 bytes"):
        next(found)


def test_a_decoder_goes_on_after_an_error():
    decoder = RecordBatchDecoder("t", 0, columns=("offset",))
    bad = bytearray(_log(5))
    bad[-1] ^= 1
    with pytest.raises(PeerError):
        list(decoder.decode(bad))
    assert [batch["offset"].to_pylist() for batch in decoder.decode(_log(5))] == [[0]]
