"""The compiled decoder gives what the plain one gives."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.client.consumer.arrow.columns import decode_arrow, plain_batch
from ottla.client.consumer.message import messages_of
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.record_buffer import Decode
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.arrow.decoder import COLUMN_TYPES, COLUMNS
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record, TopicPartition
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.compression import Codec

A = TopicPartition("t", 4)
TEXT = st.none() | st.binary(max_size=9)
HEADERS = st.lists(st.builds(Header, st.text(max_size=4), TEXT), max_size=3).map(tuple)
RECORDS = st.lists(st.tuples(st.integers(-1, 2**40), TEXT, TEXT, HEADERS), min_size=1, max_size=5)
BATCHES = st.lists(
    st.tuples(RECORDS, st.booleans(), st.booleans(), st.sampled_from([Codec.NONE, Codec.LZ4]), st.integers(0, 9)), min_size=1, max_size=4
)


def written(batches: list[tuple[list[tuple[int, bytes | None, bytes | None, tuple[Header, ...]]], bool, bool, Codec, int]]) -> bytes:
    data, base = b"", 0
    for records, is_log_append_time, is_transactional, codec, epoch in batches:
        made = [Record(base + at, *each) for at, each in enumerate(records)]
        data += encode_batch(
            made,
            base_offset=base,
            codec=codec,
            leader_epoch=epoch,
            is_log_append_time=is_log_append_time,
            is_transactional=is_transactional,
            producer_id=5 if is_transactional else -1,
        )
        base += len(records)
    return bytes(data)


@given(BATCHES, st.integers(0, 12), st.booleans())
def test_both_decoders_are_equal(batches: list[object], position: int, has_aborted: bool) -> None:
    data = written(batches)  # type: ignore[arg-type]
    fetched = FetchedRecords(A, position, 1_000, memoryview(data), ((5, 0),) if has_aborted else ())
    found = [[row(columns, at) for columns in decode(fetched) for at in range(len(columns))] for decode in (decode_plain, decode_arrow)]
    assert found[0] == found[1]


def row(columns: object, at: int) -> list[object]:
    names = ("offset", "key", "value", "headers", "timestamp", "leader_epoch")
    (message,) = messages_of(columns, at, at + 1)  # type: ignore[arg-type]
    return [columns.offset(at), *(getattr(message, name)() for name in ("topic", "partition", *names))]  # type: ignore[attr-defined]


def test_damaged_batches_are_refused() -> None:
    data = bytearray(encode_batch([Record(0, 0, b"k", b"v")]))
    data[-1] ^= 1
    with pytest.raises(PeerError, match="CRC-32C of the record batch at offset 0 is wrong"):
        list(decode_arrow(FetchedRecords(A, 0, 1, memoryview(bytes(data)))))


@pytest.mark.parametrize("order", [(0, 2, 1, 3), (0, 1, 1, 2)])
@pytest.mark.parametrize("decode", [decode_plain, decode_arrow])
def test_records_whose_offsets_do_not_rise_are_refused(decode: Decode, order: tuple[int, ...]) -> None:
    data = bytes(encode_batch([Record(at, 0, None, b"v") for at in order]))
    with pytest.raises(PeerError, match="the offsets of records from offset 0 on do not rise"):
        list(decode(FetchedRecords(A, 0, 4, memoryview(data))))


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_what_was_decompressed_counts_until_the_next_columns(codec: Codec) -> None:
    records = [Record(at, 0, None, bytes(400_000), (Header("h", b"%d" % at),)) for at in range(30)]
    data = bytes(encode_batch(records, codec=codec))
    (plain,) = decode_plain(FetchedRecords(A, 0, 30, memoryview(data)))
    assert plain.size_bytes > 12_000_000
    pieces = decode_arrow(FetchedRecords(A, 0, 30, memoryview(data)))
    columns = next(pieces)
    assert len(columns) == 10, "4 MB at a time"
    assert columns.size_bytes > 12_000_000 + 4_000_000
    columns = next(pieces)
    assert columns.headers(0) == [("h", b"10")]  # type: ignore[attr-defined]


def test_long_byte_strings_are_equal_too() -> None:
    long = [bytes([number]) * 600 for number in range(9)]
    data = bytes(encode_batch([Record(at, 0, None if at == 4 else value, value) for at, value in enumerate(long)]))
    fetched = FetchedRecords(A, 2, 1_000, memoryview(data))
    (columns,) = decode_arrow(fetched)
    messages = messages_of(columns, 0, len(columns))  # type: ignore[arg-type]
    assert [message.value() for message in messages] == long[2:]
    assert columns.values[1:4] == long[3:6]  # type: ignore[attr-defined]
    assert [message.key() for message in messages] == [long[2], long[3], None, *long[5:]]
    assert {type(message.value()) for message in messages} == {bytes}


PLAIN_RECORDS = st.lists(st.tuples(st.integers(-1, 2**40), TEXT, TEXT, HEADERS), min_size=1, max_size=6)


@given(PLAIN_RECORDS, st.booleans(), st.booleans(), st.data())
def test_both_are_equal(records: list[tuple[object, ...]], is_log_append_time: bool, include_headers: bool, data: st.DataObject) -> None:
    made = [Record(at, *each) for at, each in enumerate(records)]  # type: ignore[arg-type]
    written = bytes(encode_batch(made, is_log_append_time=is_log_append_time))
    fetched = FetchedRecords(TopicPartition("tö", 4), 0, len(made), memoryview(written))
    first = data.draw(st.integers(0, len(made) - 1))
    end = data.draw(st.integers(first + 1, len(made)))
    (plain,), (compiled,) = decode_plain(fetched), decode_arrow(fetched)
    small = plain_batch(plain, first, end, include_headers=include_headers)  # type: ignore[arg-type]
    large = compiled.slice(first, end, include_headers=include_headers)  # type: ignore[attr-defined]
    small.validate(full=True)
    large.validate(full=True)
    assert small.schema == large.schema
    assert small.equals(large)
    assert small.column("offset").to_pylist() == list(range(first, end))


@pytest.mark.parametrize("include_headers", [False, True])
def test_the_schema_is_that_of_the_spark_source(include_headers: bool) -> None:
    fetched = FetchedRecords(TopicPartition("t", 4), 0, 1, memoryview(bytes(encode_batch([Record(0, 7, b"k", None)]))))
    (plain,) = decode_plain(fetched)
    batch = plain_batch(plain, 0, 1, include_headers=include_headers)  # type: ignore[arg-type]
    names = [*COLUMNS, "headers"] if include_headers else COLUMNS
    assert batch.schema == pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in names])
