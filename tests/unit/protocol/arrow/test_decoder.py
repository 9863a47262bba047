"""Record batches as Arrow columns."""

import ctypes
import datetime

import pyarrow as pa
import pytest

from ottla.columnar import COLUMNS, RecordBatchDecoder, scan
from ottla.protocol.arrow import batches as columnar_batches
from ottla.protocol.arrow import decoder
from ottla.protocol.arrow.decoder import BYTES_MAX, BYTES_MIN, COLUMN_TYPES, Capacity, Numbers, Strings
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch, seal
from ottla.protocol.records.compression import Codec

RECORDS = [
    Record(10, 1_700_000_000_000, b"key", b"value", (Header("h", b"1"), Header("h", None))),
    Record(11, 1_700_000_000_005, None, b"", ()),
    Record(13, 1_699_999_999_000, b"", None, (Header("Grüße", b""),)),
]


def test_numbers_with_and_without_nulls():
    column = Numbers(pa.int32(), 3, has_nulls=True)
    ctypes.memmove(column.address, (ctypes.c_int32 * 3)(7, 8, 9), 12)
    ctypes.memset(column.bits, 0b101, 1)
    assert column.array(3).to_pylist() == [7, 8, 9]
    assert column.array(3, 1).to_pylist() == [7, None, 9]
    assert Numbers(pa.int64(), 1).bits == 0


def test_bits_that_are_set_later():
    column = Numbers(pa.bool_(), 10)
    ctypes.memset(column.address, 0, 2)
    column.set_bits([0, 9])
    assert column.array(10).to_pylist() == [True] + [False] * 8 + [True]


def test_strings_take_what_was_used():
    column = Strings(pa.string(), 2, 100)
    offsets, data, bits, capacity = column.words
    ctypes.memmove(offsets, (ctypes.c_int32 * 3)(0, 2, 2), 12)
    ctypes.memmove(data, b"abc", 3)
    ctypes.memset(bits, 0b01, 1)
    assert capacity == 100
    assert column.array(2, 2, 1).to_pylist() == ["ab", None]
    assert column.array(2, 2, 0).to_pylist() == ["ab", ""]


def test_lists_lie_one_after_another():
    column = Strings(pa.binary(), 2, 0)
    ctypes.memmove(column.words[0], (ctypes.c_int32 * 3)(0, 1, 3), 12)
    assert column.list_array(pa.list_(pa.int64()), 2, pa.array([4, 5, 6]), 0).to_pylist() == [[4], [5, 6]]


def test_capacity_follows_what_is_used():
    capacity = Capacity()
    assert capacity.plan(1000) == 1000
    assert capacity.plan(1 << 40) == BYTES_MAX
    capacity.learn(1_000_000, was_full=False)
    assert capacity.plan(1 << 40) == 1_250_000
    capacity.learn(1_250_000, was_full=True)
    assert capacity.plan(1 << 40) == BYTES_MAX
    capacity.learn(3, was_full=False)
    assert capacity.plan(1 << 40) == BYTES_MIN


def _batches(buffer: bytes, columns: tuple[str, ...] = ("value",), rows_max: int = 1000) -> list[pa.RecordBatch]:
    return list(RecordBatchDecoder("t", 0, columns=columns, rows_max=rows_max).decode(buffer))


def _log(*sizes: int, **options) -> bytes:
    parts = [encode_batch([Record(number, 0, None, bytes(size))], base_offset=number, **options) for number, size in enumerate(sizes)]
    return b"".join(parts)


def test_a_batch_ends_where_there_is_no_room(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decoder, "BYTES_MAX", 1000)
    found = _batches(_log(400, 400, 400, 999, 0, 1, 5))
    assert [batch.num_rows for batch in found] == [2, 1, 3, 1]
    assert [len(value) for batch in found for value in batch["value"].to_pylist()] == [400, 400, 400, 999, 0, 1, 5]


def test_a_record_that_is_larger_stands_alone(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(decoder, "BYTES_MAX", 1000)
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


def _rows(decoder: RecordBatchDecoder, buffer: bytes | bytearray, **bounds: int) -> list[dict[str, object]]:
    batches = list(decoder.decode(buffer, **bounds))
    for batch in batches:
        batch.validate(full=True)
        assert 0 < batch.num_rows <= decoder.rows_max
    return pa.Table.from_batches(batches, schema=decoder.schema).to_pylist()


@pytest.mark.parametrize("codec", list(Codec))
def test_every_column_as_the_kafka_source_has_it(codec: Codec):
    decoder = RecordBatchDecoder("flights", 3, columns=tuple(COLUMN_TYPES))
    rows = _rows(decoder, encode_batch(RECORDS, base_offset=10, codec=codec))
    assert rows[0] == {
        "key": b"key",
        "value": b"value",
        "topic": "flights",
        "partition": 3,
        "offset": 10,
        "timestamp": datetime.datetime(2023, 11, 14, 22, 13, 20, tzinfo=datetime.UTC),
        "timestampType": 0,
        "headers": [{"key": "h", "value": b"1"}, {"key": "h", "value": None}],
    }
    assert [(row["key"], row["value"], row["offset"]) for row in rows[1:]] == [(None, b"", 11), (b"", None, 13)]
    assert rows[1]["headers"] is None
    assert rows[2]["headers"] == [{"key": "Grüße", "value": b""}]


def test_columns_come_in_the_order_asked_for():
    decoder = RecordBatchDecoder("t", 0, columns=("offset", "value"))
    assert _rows(decoder, encode_batch(RECORDS, base_offset=10))[0] == {"offset": 10, "value": b"value"}
    assert decoder.schema.names == ["offset", "value"]
    assert RecordBatchDecoder("t", 0).schema.names == list(COLUMNS)


def test_an_unknown_column_is_named():
    with pytest.raises(ValueError, match="unknown column offsett; there are key, value"):
        RecordBatchDecoder("t", 0, columns=("offsett",))


def test_log_append_time_is_the_batch_s_own():
    batch = encode_batch(RECORDS, base_offset=10, is_log_append_time=True)
    batch[35:43] = (1_800_000_000_000).to_bytes(8)
    seal(batch)
    rows = _rows(RecordBatchDecoder("t", 0), batch)
    assert {(row["timestamp"].timestamp(), row["timestampType"]) for row in rows} == {(1_800_000_000.0, 1)}


def test_offsets_outside_the_bounds_are_left_out():
    buffer = encode_batch(RECORDS, base_offset=10) + encode_batch([Record(14, 0, None, b"x")], base_offset=14)
    decoder = RecordBatchDecoder("t", 0, columns=("offset",))
    assert [row["offset"] for row in _rows(decoder, buffer, offset_start=11, offset_end=14)] == [11, 13]
    assert [row["offset"] for row in _rows(decoder, buffer, offset_start=12)] == [13, 14]
    assert _rows(decoder, buffer, offset_start=15) == []


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_a_compressed_batch_outside_the_bounds_may_hold_more_records_than_bytes(codec: Codec):
    plain = encode_batch([Record(0, 0, None, b"x")])
    squeezed = encode_batch([Record(i, 0, b"k", b"v" * 10) for i in range(1, 1001)], base_offset=1, codec=codec)
    assert len(squeezed) < 7 * 1000
    decoder = RecordBatchDecoder("t", 0, columns=("offset",))
    assert _rows(decoder, plain + squeezed, offset_end=1) == [{"offset": 0}]
    assert len(_rows(decoder, plain + squeezed)) == 1001


def test_large_batches_are_cut_into_pieces_and_small_ones_are_joined():
    large = encode_batch([Record(i, 0, b"%d" % i, None) for i in range(1000)])
    small = b"".join(encode_batch([Record(1000 + i, 0, b"%d" % (1000 + i), None)], base_offset=1000 + i) for i in range(100))
    decoder = RecordBatchDecoder("t", 0, columns=("key", "offset", "topic"), rows_max=300)
    batches = list(decoder.decode(large + small))
    assert [batch.num_rows for batch in batches] == [300, 300, 300, 200]
    rows = pa.Table.from_batches(batches).to_pylist()
    assert rows == [{"key": b"%d" % i, "offset": i, "topic": "t"} for i in range(1100)]


def test_earlier_batches_stay_valid_when_the_decoder_goes_on():
    decoder = RecordBatchDecoder("t", 0, columns=("key",), rows_max=10)
    first, second = decoder.decode(encode_batch([Record(i, 0, b"%d" % i, None) for i in range(20)]))
    assert [row.as_py() for row in first["key"]] == [b"%d" % i for i in range(10)]
    assert [row.as_py() for row in second["key"]] == [b"%d" % i for i in range(10, 20)]


def test_a_header_key_that_is_no_text_is_replaced_as_kafka_s_reader_does():
    batch = encode_batch([Record(0, 0, None, None, (Header("kk", b"v"), Header("fine", b"v")))])
    at = batch.index(b"kk")
    batch[at : at + 2] = b"\xff\xfe"
    seal(batch)
    (row,) = _rows(RecordBatchDecoder("t", 0, columns=("headers",)), batch)
    assert [header["key"] for header in row["headers"]] == ["\ufffd\ufffd", "fine"]


def test_control_records_and_empty_batches_give_no_rows():
    empty = encode_batch([Record(0, 0, None, None)])[:61]
    empty[8:12], empty[57:61] = (49).to_bytes(4), bytes(4)
    seal(empty)
    assert _rows(RecordBatchDecoder("t", 0), empty + encode_batch(RECORDS, base_offset=10, is_control=True)) == []


def test_good_batches_come_out_before_the_bad_one_is_named():
    bad = encode_batch([Record(1, 0, None, b"x")], base_offset=1)
    bad[61 + 5] = 0x7E
    seal(bad)
    rows = RecordBatchDecoder("t", 0, rows_max=1).decode(scan(encode_batch([Record(0, 0, None, b"x")]) + bad))
    assert next(rows).num_rows == 1
    with pytest.raises(PeerError, match="does not fit"):
        next(rows)
