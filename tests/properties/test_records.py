"""Any records make a batch that independent readers understand the same; any bytes make records or PeerError, within bounds."""

from contextlib import suppress
from typing import Any

import pytest
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from hypothesis import example, given
from hypothesis import strategies as st
from kio.records.readers import read_batch as read_batch_by_kio

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import (
    HEADER_BYTES,
    BatchHeader,
    decode_batch,
    encode_batch,
    encode_records,
    only_record,
    read_header,
    read_record,
    seal,
    split_batches,
)
from ottla.protocol.records.compression import Codec, compress, decompress

INT64_MAX = (1 << 63) - 1
codecs = st.sampled_from(list(Codec))
texts = st.one_of(st.none(), st.binary(max_size=200))
headers = st.lists(st.builds(Header, st.text(max_size=10), texts), max_size=3).map(tuple)
# 253 years after 1970 and back to it: kio and aiokafka cannot tell more
times = st.integers(min_value=0, max_value=8_000_000_000_000)


@st.composite
def record_lists(draw: st.DrawFn, *, gaps: bool = True, timestamps: st.SearchStrategy[int] = times) -> tuple[int, list[Record]]:
    """A base offset and records with rising offsets from there on."""
    base_offset = draw(st.integers(min_value=0, max_value=1 << 50))
    count = draw(st.integers(min_value=1, max_value=20))
    steps = draw(st.lists(st.integers(min_value=1, max_value=1000 if gaps else 1), min_size=count, max_size=count))
    offset, records = base_offset - 1, []
    for step in steps:
        offset += step
        records.append(Record(offset, draw(timestamps), draw(texts), draw(texts), draw(headers)))
    return base_offset, records


@given(record_lists(timestamps=st.integers(min_value=-1, max_value=INT64_MAX)), codecs)
@example((0, [Record(0, -1, None, None, ()), Record(1, INT64_MAX, None, None, ())]), Codec.NONE)
def test_round_trip(given_records: tuple[int, list[Record]], codec: Codec) -> None:
    base_offset, records = given_records
    if max(record.timestamp_ms for record in records) - records[0].timestamp_ms > INT64_MAX:
        with pytest.raises(PeerError, match="does not fit into its batch"):
            encode_batch(records, base_offset=base_offset, codec=codec)
        return
    batch = encode_batch(records, base_offset=base_offset, codec=codec)
    assert decode_batch(batch) == records
    ((at, header),) = split_batches(batch)
    assert (at, header.size_bytes, header.codec, header.record_count) == (0, len(batch), codec, len(records))
    assert (header.base_offset, header.last_offset) == (base_offset, records[-1].offset)
    assert header.max_timestamp_ms == max(record.timestamp_ms for record in records)


@given(record_lists(), codecs)
def test_aiokafka_reads_the_same(given_records: tuple[int, list[Record]], codec: Codec) -> None:
    base_offset, records = given_records
    batch = DefaultRecordBatch(bytes(encode_batch(records, base_offset=base_offset, codec=codec, producer_id=5, base_sequence=7)))
    assert batch.validate_crc()
    assert (batch.base_offset, batch.next_offset, batch.producer_id, batch.base_sequence) == (base_offset, records[-1].offset + 1, 5, 7)
    read = [(each.offset, each.timestamp, each.key, each.value, [*each.headers]) for each in batch]
    assert read == [(*record[:4], [tuple(header) for header in record.headers]) for record in records]


@given(record_lists(gaps=False), codecs)
def test_what_aiokafka_writes_is_read(given_records: tuple[int, list[Record]], codec: Codec) -> None:
    _, records = given_records
    records = [record._replace(offset=number) for number, record in enumerate(records)]
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 20
    )
    for record in records:
        pairs: Any = [tuple(header) for header in record.headers]
        builder.append(record.offset, record.timestamp_ms, record.key, record.value, pairs)
    built = builder.build()
    assert decode_batch(built) == records
    if codec is Codec.NONE:
        assert encode_batch(records, leader_epoch=read_header(built).leader_epoch) == built


@given(record_lists())
def test_kio_reads_the_same(given_records: tuple[int, list[Record]]) -> None:
    base_offset, records = given_records
    batch = encode_batch(records, base_offset=base_offset, leader_epoch=3, producer_id=9, producer_epoch=1, base_sequence=5)
    read, size = read_batch_by_kio(bytes(batch), 0)
    header = read_header(batch)
    assert size == len(batch)
    assert header == BatchHeader(
        read.base_offset,
        read.batch_length,
        read.partition_leader_epoch,
        read.magic,
        read.crc,
        read.attributes,
        read.last_offset_delta,
        read.base_timestamp,
        read.max_timestamp,
        read.producer_id,
        read.producer_epoch,
        read.base_sequence,
        len(read.records),
    )
    for ours, theirs in zip(records, read.records, strict=True):
        assert (ours.offset, ours.key, ours.value) == (theirs.offset, theirs.key, theirs.value)
        assert [(header.key.encode(), header.value) for header in ours.headers] == [(each.key, each.value) for each in theirs.headers]


def read_anyhow(data: bytes) -> None:
    """Whatever the bytes are: records, or PeerError."""
    try:
        for at, header in split_batches(data):
            records = decode_batch(data, at, decompressed_bytes_max=1 << 20)
            assert len(records) == header.record_count
    except PeerError:
        pass


@given(st.binary(max_size=300))
def test_any_bytes(data: bytes) -> None:
    read_anyhow(data)


@given(record_lists(), codecs, st.data())
def test_any_change_to_a_batch(given_records: tuple[int, list[Record]], codec: Codec, data: st.DataObject) -> None:
    base_offset, records = given_records
    batch = encode_batch(records, base_offset=base_offset, codec=codec)
    for _ in range(data.draw(st.integers(min_value=1, max_value=4))):
        at = data.draw(st.integers(min_value=0, max_value=len(batch) - 1))
        batch[at] = data.draw(st.integers(min_value=0, max_value=255))
    read_anyhow(bytes(batch))
    seal(batch)  # as a hostile producer would
    read_anyhow(bytes(batch))


@given(record_lists(), st.binary(max_size=60))
def test_any_records_section(given_records: tuple[int, list[Record]], section: bytes) -> None:
    base_offset, records = given_records
    batch = encode_batch(records, base_offset=base_offset)
    batch[HEADER_BYTES:] = section
    batch[8:12] = (HEADER_BYTES - 12 + len(section)).to_bytes(4)
    seal(batch)
    read_anyhow(bytes(batch))


@pytest.mark.parametrize("codec", list(Codec))
@given(st.binary(max_size=500), st.data())
def test_any_change_to_compressed_bytes(codec: Codec, plain: bytes, data: st.DataObject) -> None:
    packed = bytearray(compress(codec, plain * 50))
    for _ in range(data.draw(st.integers(min_value=0, max_value=3))):
        if packed:
            packed[data.draw(st.integers(min_value=0, max_value=len(packed) - 1))] = data.draw(st.integers(min_value=0, max_value=255))
    with suppress(PeerError):
        assert len(decompress(codec, packed, output_bytes_max=1 << 16)) <= 1 << 16


@pytest.mark.parametrize("codec", list(Codec))
@given(st.binary(max_size=200))
def test_any_compressed_bytes(codec: Codec, data: bytes) -> None:
    with suppress(PeerError):
        assert len(decompress(codec, data, output_bytes_max=1 << 16)) <= 1 << 16


@given(st.binary(max_size=300), st.binary(max_size=9_000), st.lists(st.tuples(st.integers(0, 20), st.integers(0, 255)), max_size=2))
@example(b"k" * 63, b"v" * 64, [])
@example(b"", b"v" * 8_191, [])
def test_an_only_record_is_what_the_reader_of_records_reads(key: bytes, value: bytes, changes: list[tuple[int, int]]) -> None:
    """Or is left to it: with bytes that are wrong, or a value of more than 8 kB."""
    section = encode_records([Record(0, 0, key, value)], base_offset=0, base_timestamp_ms=0)
    for at, byte in changes:
        section[min(at, len(section) - 1)] = byte
    found = only_record(b"before" + section, 6, 6 + len(section))
    if not changes:
        assert (found is None) == (len(value) > 8_000 and len(value) + len(key) > 8_180)
    if found is not None:
        record, end = read_record(bytes(section), 0, 0, 0, 0)
        assert (record.key, record.value, end) == (*found, len(section))
