"""Records of the offsets topic as columns: equal to what the plain decoders say of each, for records of all versions, sound or damaged."""

import json
import random
from base64 import urlsafe_b64encode
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.columnar import GROUP_RECORD_TYPES, GroupRecordDecoder
from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, decode
from ottla.protocol.coordinator_records import OFFSETS_TOPIC_TYPES, decode_offsets_record, offsets_record_json
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.record_codec import NO_ID, DecodedRecord
from ottla.protocol.records.batch import decode_batch, encode_batch, seal
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire.consumer_protocol import parse_assignment, parse_subscribed_topics, parse_subscription
from ottla.protocol.wire.primitives import Reader, Writer

TIME_MS_MAX = (2**63 - 1) // 1000
NAMES = tuple(name for name in GROUP_RECORD_TYPES if name != "partition")

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
texts = st.sampled_from(["", "g", "eighteen888888888-", "größe", "組", "😀"]) | st.text(max_size=20)
times = st.sampled_from([-1, 0, 1_700_000_000_000, TIME_MS_MAX, TIME_MS_MAX + 1]) | int64
topic_ids = st.sampled_from([bytes(16), b"0123456789abcdef", bytes(range(240, 256))]) | st.binary(min_size=16, max_size=16)
SUBSCRIPTION = Writer().int16(0).int32(2).string("a").string("b").int32(-1).to_bytes()
ASSIGNMENT = Writer().int16(0).int32(1).string("a").int32(2).int32(0).int32(4).int32(-1).to_bytes()


@st.composite
def commits(draw: st.DrawFn) -> tuple[bytes, bytes | None]:
    key = Writer().int16(draw(st.integers(0, 1))).string(draw(texts)).string(draw(texts)).int32(draw(int32))
    version = draw(st.integers(0, 4))
    out = Writer(flexible=version == 4).int16(version).int64(draw(int64))
    if version >= 3:
        out.int32(draw(int32))
    metadata = draw(texts)
    out.string(metadata)
    out.int64(draw(times))
    if version == 1:
        out.int64(draw(times))
    if version == 4:
        fields = draw(st.lists(st.tuples(st.integers(0, 200), topic_ids | st.binary(max_size=20)), max_size=2))
        out.uvarint(len(fields))
        for tag, field in fields:
            out.uvarint(tag).uvarint(len(field)).raw(field)
    return key.to_bytes(), draw(st.just(out.to_bytes()) | st.none())


@st.composite
def generations(draw: st.DrawFn) -> tuple[bytes, bytes]:
    version = draw(st.integers(0, 3))
    out = Writer().int16(version).string(draw(st.sampled_from(["consumer", "connect"]))).int32(draw(int32))
    out.nullable_string(draw(st.none() | texts)).nullable_string(draw(st.none() | texts))
    if version >= 2:
        out.int64(draw(times))
    members = draw(st.lists(texts, max_size=2))
    out.int32(len(members))
    for member_id in members:
        out.string(member_id)
        if version >= 3:
            out.nullable_string(draw(st.none() | texts))
        out.string("client").string("/127.0.0.1")
        if version >= 1:
            out.int32(draw(int32))
        out.int32(draw(int32))
        for embedded in (SUBSCRIPTION, ASSIGNMENT):
            data = draw(st.just(embedded) | st.binary(max_size=5))
            out.int32(len(data)).raw(data)
    return Writer().int16(2).string(draw(texts)).to_bytes(), out.to_bytes()


others = st.sampled_from(
    [
        (b"\0\x03\0\x01g", b"\0\0\0\0\0\x07\0"),
        (b"\0\x06\0\x01g", b"\0\0\0\0\0\x07\0"),
        (b"\0\x07\0\x01g\0\x01m", b"\0\0\x01\0"),
        (b"\0\x11\0\x01g", None),
        (b"\0\x63\0\x01g", b"\0\0"),
        (b"\x80\0\0\x01g", b"\0\0"),
        (None, b"x"),
    ]
)


@st.composite
def entries(draw: st.DrawFn) -> tuple[bytes | None, bytes | None]:
    """Key and value of a record: mostly sound, now and then not."""
    key, value = draw(
        commits() | commits() | generations() | others | st.tuples(st.none() | st.binary(max_size=12), st.binary(max_size=12))
    )
    if draw(st.integers(0, 3)) == 0:
        rng = random.Random(draw(st.integers(0, 2**32)))
        return _spoiled(key, rng), _spoiled(value, rng)
    return key, value


def _spoiled(sound: bytes | None, rng: random.Random) -> bytes | None:
    """Some bytes of it changed, or its end lost, or nothing."""
    data = bytearray(sound or b"")
    for _ in range(rng.randrange(3)):
        if data:
            data[rng.randrange(len(data))] = rng.choice([0, 1, 2, 4, 5, 0x7F, 0x80, 0xC0, 0xED, 0xF4, 0xFF])
    if rng.randrange(3) == 0:
        del data[rng.randrange(len(data) + 1) :]
    return None if sound is None else bytes(data)


def _expected(record: Record) -> dict[str, Any]:
    """The row of one record by the plain decoders; without what is null."""
    key, value = record.key, record.value
    row: dict[str, Any] = {
        "offset": record.offset,
        "timestamp": record.timestamp_ms * 1000,
        "is_tombstone": value is None,
        "is_known": False,
    }
    if key is None or len(key) < 2:
        return row
    record_type = row["record_type"] = Reader(key).int16()
    if record_type not in OFFSETS_TOPIC_TYPES:
        return row
    if value is not None and len(value) >= 2:
        row["value_version"] = Reader(value).int16()
    try:
        row |= _of_key(record_type, key)
        row |= _of_record(record_type, key, value)
    except PeerError:
        return row
    return {name: value for name, value in row.items() if value is not None}


def _of_key(record_type: int, key: bytes) -> dict[str, Any]:
    reader = Reader(key, 2)
    if record_type >= 2:
        return {"group": reader.string()}
    return {"group": reader.string(), "topic": reader.string(), "topic_partition": reader.int32()}


def _of_record(record_type: int, key: bytes, value: bytes | None) -> dict[str, Any]:
    if record_type > 2:
        found = decode_offsets_record(key, value)
        return {"is_known": True, "record": offsets_record_json(found)} if isinstance(found, DecodedRecord) else {}
    record = decode(key, value)
    if isinstance(record, OffsetRecord) and record.value is not None:
        offset, leader_epoch, metadata, commit_ms, expire_ms, topic_id = record.value
        return {
            "is_known": True,
            "committed_offset": offset,
            "leader_epoch": leader_epoch,
            "metadata": metadata,
            "commit_timestamp": _time_us(commit_ms),
            "expire_timestamp": None if expire_ms is None else _time_us(expire_ms),
            "topic_id": None if topic_id == NO_ID else urlsafe_b64encode(topic_id).decode().rstrip("="),
        }
    return {"is_known": True} | (_generation(record) if isinstance(record, GroupMetadataRecord) else {})


def _generation(record: GroupMetadataRecord) -> dict[str, Any]:
    if record.value is None:
        return {}
    found = record.value
    members = [
        {
            "member_id": member.member_id,
            "group_instance_id": member.instance_id,
            "client_id": member.client_id,
            "client_host": member.client_host,
            "rebalance_timeout": member.rebalance_timeout_ms,
            "session_timeout": member.session_timeout_ms,
            "subscribed_topics": _embedded(parse_subscribed_topics, member.subscription, found.protocol_type),
            "owned_partitions": _embedded(lambda data: parse_subscription(data).owned.items(), member.subscription, found.protocol_type),
            "assignment": _embedded(lambda data: parse_assignment(data).items(), member.assignment, found.protocol_type),
        }
        for member in found.members
    ]
    return {
        "protocol_type": found.protocol_type,
        "generation": found.generation,
        "protocol": found.protocol,
        "leader": found.leader,
        "state_timestamp": None if found.current_state_timestamp_ms == -1 else _time_us(found.current_state_timestamp_ms),
        "members": members,
    }


def _embedded(parse: Any, data: bytes, protocol_type: str) -> Any:
    if protocol_type != "consumer":
        return None
    try:
        return [tuple(map(_listed, item)) if isinstance(item, tuple) else item for item in parse(data)]
    except PeerError:
        return None


def _listed(item: Any) -> Any:
    return list(item) if isinstance(item, tuple) else item


def _time_us(time_ms: int) -> int | None:
    return time_ms * 1000 if -TIME_MS_MAX <= time_ms <= TIME_MS_MAX else None


def _columnar(buffer: bytes | bytearray) -> list[dict[str, Any]]:
    rows = []
    for batch in GroupRecordDecoder(0, columns=NAMES, rows_max=7).decode(buffer):
        batch.validate(full=True)
        table = pa.Table.from_batches([batch])
        for name in NAMES:
            if pa.types.is_timestamp(GROUP_RECORD_TYPES[name]):
                table = table.set_column(table.schema.get_field_index(name), name, table[name].cast("int64"))
        for row in table.to_pylist():
            row["record"] = json.loads(row["record"]) if row["record"] else None
            rows.append({name: value for name, value in row.items() if value is not None})
    return rows


@settings(max_examples=60, deadline=None)
@given(st.lists(st.lists(entries(), min_size=1, max_size=9), min_size=1, max_size=3), st.sampled_from([Codec.NONE, Codec.NONE, Codec.LZ4]))
def test_equal_to_the_plain_decoders(parts: list, codec: Codec):
    records, buffer = [], bytearray()
    for pairs in parts:
        batch = [Record(len(records) + number, 1_700_000_000_000 + number, key, value) for number, (key, value) in enumerate(pairs)]
        buffer += encode_batch(batch, base_offset=len(records), codec=codec)
        records += batch
    assert _columnar(buffer) == [_expected(record) for record in records]


@pytest.mark.parametrize("seed", range(2))
def test_damaged_batches_give_what_the_plain_codec_gives_or_peer_error(seed: int):
    rng = random.Random(seed)
    value = Writer(flexible=True).int16(4).int64(5).int32(1).string("meta").int64(9).tagged_fields({0: b"i" * 16}).to_bytes()
    key = Writer().int16(1).string("group").string("topic").int32(1).to_bytes()
    refused = 0
    for _ in range(1000):
        records = [Record(number, 7, key, rng.choice([None, value])) for number in range(rng.randrange(1, 5))]
        batch = encode_batch(records)
        for _ in range(rng.randrange(1, 4)):
            batch[rng.randrange(23, len(batch))] = rng.choice([0, 1, 2, 0x7F, 0x80, 0xFF, rng.randrange(256)])
        seal(batch)
        try:
            got = _columnar(batch)
        except PeerError:
            refused += 1
            continue
        assert got == [_expected(record) for record in decode_batch(batch)]
    assert 100 < refused < 900
