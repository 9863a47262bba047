"""Records of the offsets topic, typed, and their bytes (S2.1): what a coordinator writes and replays.

The bytes are Kafka's own: a key is a 16-bit record type and its fields, a value a 16-bit version and its fields, a null value is a
tombstone. Every version that Kafka ever wrote is read; written are the versions that Kafka 4.x writes. What a record means is not
decided here.
"""

import struct
from dataclasses import dataclass

from ottla.core.errors import PeerError
from ottla.core.groups.wire import Reader, compact_string, sized_bytes, string


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetValue:
    """A committed offset. `expire_timestamp_ms` is None unless the commit asked for its own expiry (value version 1)."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_timestamp_ms: int
    expire_timestamp_ms: int | None = None
    topic_id: bytes = bytes(16)


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """Key type 1: one group's offset in one partition; `value` None is the tombstone."""

    group_id: str
    topic: str
    partition: int
    value: OffsetValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberValue:
    """One member inside a group record."""

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataValue:
    """The registration of a classic group at one generation."""

    protocol_type: str
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberValue, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRecord:
    """Key type 2: a classic group; `value` None is the tombstone."""

    group_id: str
    value: GroupMetadataValue | None


GroupRecord = OffsetRecord | GroupMetadataRecord

OFFSET_KEYS = (0, 1)
GROUP_KEY = 2
NO_TOPIC_ID = bytes(16)

_OFFSET_AND_EPOCH = struct.Struct(">hqi")
_OFFSET_ONLY = struct.Struct(">hq")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")
_TWO_I32 = struct.Struct(">ii")
_TOPIC_ID_FIELD = b"\x01\x00\x10"
"""One tagged field: tag 0, 16 bytes."""


def encode_key(record: GroupRecord) -> bytes:
    """The key under which compaction keeps one record."""
    if isinstance(record, OffsetRecord):
        return b"\x00\x01" + string(record.group_id) + string(record.topic) + _I32.pack(record.partition)
    return b"\x00\x02" + string(record.group_id)


def encode_value(record: GroupRecord) -> bytes | None:
    """The value, None for a tombstone; the version is the one that Kafka 4.x would choose (kafka-groups 9.1)."""
    if record.value is None:
        return None
    if isinstance(record.value, OffsetValue):
        return _encode_offset(record.value)
    return _encode_group(record.value)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """A record from its bytes; None for a record type that is not known here, which its reader counts and skips.

    Raises PeerError when the bytes cannot be a record of the offsets topic.
    """
    if key is None:
        raise PeerError("a record of the offsets topic has no key")
    reader = Reader(key)
    record_type = reader.i16()
    if record_type in OFFSET_KEYS:
        group_id, topic, partition = reader.string(), reader.string(), reader.i32()
        offset = None if value is None else _decode_offset(value)
        return OffsetRecord(group_id=group_id, topic=topic, partition=partition, value=offset)
    if record_type == GROUP_KEY:
        group_id = reader.string()
        return GroupMetadataRecord(group_id=group_id, value=None if value is None else _decode_group(value))
    if record_type < 0:
        raise PeerError(f"record type {record_type}")
    return None


def _encode_offset(value: OffsetValue) -> bytes:
    if value.expire_timestamp_ms is not None:
        head = _OFFSET_ONLY.pack(1, value.offset) + string(value.metadata)
        return head + _I64.pack(value.commit_timestamp_ms) + _I64.pack(value.expire_timestamp_ms)
    if value.topic_id == NO_TOPIC_ID:
        head = _OFFSET_AND_EPOCH.pack(3, value.offset, value.leader_epoch)
        return head + string(value.metadata) + _I64.pack(value.commit_timestamp_ms)
    head = _OFFSET_AND_EPOCH.pack(4, value.offset, value.leader_epoch)
    tail = _I64.pack(value.commit_timestamp_ms) + b"\x01" + _TOPIC_ID_FIELD + value.topic_id
    return head + compact_string(value.metadata) + tail


def _decode_offset(data: bytes) -> OffsetValue:
    reader = Reader(data)
    version = reader.i16()
    if not 0 <= version <= 4:
        raise PeerError(f"offset value of version {version}")
    offset = reader.i64()
    leader_epoch = reader.i32() if version >= 3 else -1
    metadata = reader.string() if version < 4 else reader.compact_string()
    commit_timestamp_ms = reader.i64()
    expire_timestamp_ms = reader.i64() if version == 1 else -1
    topic_id = reader.tagged_fields().get(0, NO_TOPIC_ID) if version >= 4 else NO_TOPIC_ID
    if len(topic_id) != len(NO_TOPIC_ID):
        raise PeerError(f"a topic id of {len(topic_id)} bytes")
    return OffsetValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=None if expire_timestamp_ms == -1 else expire_timestamp_ms,
        topic_id=topic_id,
    )


def _encode_group(value: GroupMetadataValue) -> bytes:
    out = bytearray(b"\x00\x03")
    out += string(value.protocol_type)
    out += _I32.pack(value.generation)
    out += string(value.protocol)
    out += string(value.leader)
    out += _I64.pack(value.current_state_timestamp_ms)
    out += _I32.pack(len(value.members))
    for member in value.members:
        out += string(member.member_id)
        out += string(member.instance_id)
        out += string(member.client_id)
        out += string(member.client_host)
        out += _TWO_I32.pack(member.rebalance_timeout_ms, member.session_timeout_ms)
        out += sized_bytes(member.subscription)
        out += sized_bytes(member.assignment)
    return bytes(out)


def _decode_group(data: bytes) -> GroupMetadataValue:
    reader = Reader(data)
    version = reader.i16()
    if not 0 <= version <= 4:
        raise PeerError(f"group value of version {version}")
    flexible = version >= 4
    text = reader.compact_string if flexible else reader.string
    nullable_text = reader.compact_nullable_string if flexible else reader.nullable_string
    protocol_type, generation, protocol, leader = text(), reader.i32(), nullable_text(), nullable_text()
    current_state_timestamp_ms = reader.i64() if version >= 2 else -1

    def member() -> MemberValue:
        return _decode_member(reader, version)

    members = reader.array(member, item_bytes_min=15 if flexible else 18, compact=flexible)
    if flexible:
        reader.tagged_fields()
    if len({member.member_id for member in members}) != len(members):
        raise PeerError("a group record names a member twice")
    return GroupMetadataValue(
        protocol_type=protocol_type,
        generation=generation,
        protocol=protocol,
        leader=leader,
        current_state_timestamp_ms=current_state_timestamp_ms,
        members=members,
    )


def _decode_member(reader: Reader, version: int) -> MemberValue:
    flexible = version >= 4
    text = reader.compact_string if flexible else reader.string
    nullable_text = reader.compact_nullable_string if flexible else reader.nullable_string
    data = reader.compact_data if flexible else reader.data
    member_id = text()
    instance_id = nullable_text() if version >= 3 else None
    client_id, client_host = text(), text()
    rebalance_timeout_ms = reader.i32() if version >= 1 else -1
    session_timeout_ms = reader.i32()
    subscription, assignment = data(), data()
    if flexible:
        reader.tagged_fields()
    return MemberValue(
        member_id=member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=client_host,
        # Version 0 had no rebalance timeout: the session timeout served as both.
        rebalance_timeout_ms=session_timeout_ms if rebalance_timeout_ms == -1 else rebalance_timeout_ms,
        session_timeout_ms=session_timeout_ms,
        subscription=subscription,
        assignment=assignment,
    )
