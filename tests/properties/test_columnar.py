"""The columnar decoder against three independent ones (the plain codec, aiokafka, kafka-python), and against bytes that were damaged."""

import random

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record import MemoryRecords as KafkaPythonRecords

from ottla.columnar import RecordBatchDecoder
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import decode_batch, encode_batch, seal, split_batches
from ottla.protocol.records.compression import Codec

NAMES = ("offset", "timestamp", "key", "value", "headers")
SMALL_BYTES = st.none() | st.binary(max_size=200)
RECORD_PARTS = st.tuples(
    st.integers(1, 100),  # step to the next offset: compaction leaves gaps
    st.integers(-(10**9), 10**9),  # timestamp against the batch's first, in ms
    SMALL_BYTES,
    SMALL_BYTES,
    st.lists(st.tuples(st.text(max_size=20), SMALL_BYTES), max_size=4),
)
BATCHES = st.lists(st.tuples(st.lists(RECORD_PARTS, min_size=1, max_size=20), st.sampled_from(list(Codec))), min_size=1, max_size=6)


def _encode(batches: list[tuple[list[tuple], Codec]], base_offset: int) -> bytes:
    buffer, offset = bytearray(), base_offset
    for parts, codec in batches:
        records = []
        for step, timestamp, key, value, headers in parts:
            offset += step
            records.append(Record(offset, 1_700_000_000_000 + timestamp, key, value, tuple(Header(*header) for header in headers)))
        buffer += encode_batch(records, base_offset=records[0].offset, codec=codec)
    return bytes(buffer)


def _columnar(buffer: bytes | bytearray) -> list[Record]:
    """What the columnar decoder says, as plain records."""
    decoder = RecordBatchDecoder("t", 0, columns=NAMES, rows_max=16)
    records = []
    for batch in decoder.decode(buffer):
        batch.validate(full=True)
        columns = [batch["timestamp"].cast("int64") if name == "timestamp" else batch[name] for name in NAMES]
        for offset, timestamp_us, key, value, headers in zip(*(column.to_pylist() for column in columns), strict=True):
            pairs = tuple(Header(header["key"], header["value"]) for header in headers or ())
            records.append(Record(offset, timestamp_us // 1000, key, value, pairs))
    return records


def _plain(buffer: bytes | bytearray) -> list[Record]:
    return [record for at, _ in split_batches(buffer) for record in decode_batch(buffer, at)]


def _aiokafka(buffer: bytes) -> list[Record]:
    records, found = MemoryRecords(buffer), []
    while records.has_next():
        for record in records.next_batch():
            found.append(Record(record.offset, record.timestamp, record.key, record.value, tuple(Header(*h) for h in record.headers)))
    return found


def _kafka_python(buffer: bytes) -> list[Record]:
    records, found = KafkaPythonRecords(buffer), []
    while records.has_next():
        for record in records.next_batch():
            found.append(Record(record.offset, record.timestamp, record.key, record.value, tuple(Header(*h) for h in record.headers)))
    return found


@settings(max_examples=60, deadline=None)
@given(BATCHES, st.integers(0, 2**62))
def test_equal_to_the_plain_codec(batches: list, base_offset: int):
    buffer = _encode(batches, base_offset)
    assert _columnar(buffer) == _plain(buffer)


@settings(max_examples=60, deadline=None)
@given(BATCHES)
def test_equal_to_the_readers_of_two_clients(batches: list):
    buffer = _encode(batches, 0)
    assert _columnar(buffer) == _aiokafka(buffer)
    if all(codec in (Codec.NONE, Codec.GZIP) for _, codec in batches):  # the others it reads only with more packages
        assert _columnar(buffer) == _kafka_python(buffer)


@settings(max_examples=40, deadline=None)
@given(st.lists(RECORD_PARTS, min_size=1, max_size=30), st.sampled_from([0, 1, 2, 3]), st.integers(0, 2**40))
def test_reads_what_a_client_wrote(parts: list, codec: int, base_offset: int):
    builder = DefaultRecordBatchBuilder(
        magic=2, compression_type=codec, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1, batch_size=1 << 24
    )
    written = []
    for index, (_, timestamp, key, value, headers) in enumerate(parts):
        builder.append(index, 1_700_000_000_000 + timestamp, key, value, headers)
        pairs = tuple(Header(*header) for header in headers)
        written.append(Record(base_offset + index, 1_700_000_000_000 + timestamp, key, value, pairs))
    batch = bytearray(builder.build())
    batch[:8] = base_offset.to_bytes(8)  # as a broker does; the checksum does not cover it
    assert _columnar(batch) == written


@pytest.mark.parametrize("seed", range(4))
def test_damaged_bytes_give_what_the_plain_codec_gives_or_peer_error(seed: int):
    """Ten thousand damaged buffers with their checksums made right again, so that the damage reaches the kernels."""
    rng = random.Random(seed)
    refused = 0
    for _ in range(2500):
        codec = rng.choice([Codec.NONE, Codec.NONE, Codec.NONE, *Codec])
        records = [
            Record(i, 1_700_000_000_000 + i, rng.randbytes(rng.randrange(9)), rng.choice([None, rng.randbytes(rng.randrange(80))]))
            for i in range(rng.randrange(1, 8))
        ]
        records[0] = records[0]._replace(headers=(Header("trace", b"12"), Header("n", None)))
        batch = encode_batch(records, codec=codec)
        for _ in range(rng.randrange(1, 5)):
            # From the attributes on: the base offset may be anything, the length and magic have their own tests.
            batch[rng.randrange(21, len(batch))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        seal(batch)
        try:
            got = _columnar(batch)
        except PeerError:
            refused += 1
            continue
        if not batch[22] & 0x20:
            assert got == _plain(batch)
    assert 500 < refused < 2500


def test_any_bytes_at_all_give_records_or_peer_error():
    rng = random.Random(7)
    sound = bytes(encode_batch([Record(i, i, b"k", b"v" * 50) for i in range(20)]))
    for _ in range(3000):
        buffer = bytearray(sound * rng.randrange(1, 4))
        for _ in range(rng.randrange(1, 6)):
            buffer[rng.randrange(len(buffer))] = rng.randrange(256)
        del buffer[rng.randrange(len(buffer)) :]
        try:
            _columnar(buffer)
        except PeerError:
            continue
