"""Records of the offsets topic and their encoding, which is Kafka's.

A key is a 16-bit record type and its fields, a value a 16-bit version and its fields; a null value is a tombstone. Every version that
Kafka ever wrote can be read; the versions that Kafka 4.x writes are written.
"""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ottla.core.errors import PeerError
from ottla.core.wire.reader import Reader
from ottla.core.wire.writer import Writer


class OffsetValue(NamedTuple):
    """A committed offset. `expire_timestamp_ms` is None unless the commit set its own expiry (value version 1).

    A tuple, since a broker may hold millions of them.
    """

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
    """A classic group at one generation."""

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
TOPIC_ID_TAG = 0

STRING_BYTES_MAX = 32_767
"""Strings in a key have 16-bit lengths."""
STRING_CHARS_SAFE = STRING_BYTES_MAX // 4
"""UTF-8 takes at most four bytes a character, so shorter strings need not be encoded to be measured."""


_COMMON_VALUE = Struct(">hqiBq3s16s")
_COMMON_VALUE_BEGIN = b"\0\4"
_COMMON_TAGS = bytes([1, TOPIC_ID_TAG, 16])
"""Version 4 without metadata and with a topic id, like nearly all commits, of which a log may hold millions."""


def refuse_long_strings(*texts: str | None) -> None:
    """Raise PeerError for a string that no record can hold; Kafka refuses it when it reads the request."""
    for text in texts:
        if text is not None and len(text) > STRING_CHARS_SAFE and len(text.encode()) > STRING_BYTES_MAX:
            raise PeerError(f"a string of {len(text)} characters, where {STRING_BYTES_MAX} bytes are allowed")


def encode_key(record: GroupRecord) -> bytes:
    """The key under which compaction keeps one record."""
    if isinstance(record, OffsetRecord):
        key = Writer().int16(1).string(record.group_id).string(record.topic).int32(record.partition)
    else:
        key = Writer().int16(GROUP_KEY).string(record.group_id)
    return key.to_bytes()


def encode_value(record: GroupRecord) -> bytes | None:
    """The value, None for a tombstone; the version is the one that Kafka 4.x would choose."""
    if record.value is None:
        return None
    if isinstance(record.value, OffsetValue):
        return _encode_offset(record.value)
    return _encode_group(record.value)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """Decode a record; None for an unknown record type, which the caller skips.

    Raises PeerError if the bytes cannot be a record of the offsets topic.
    """
    if key is None:
        raise PeerError("a record of the offsets topic has no key")
    reader = Reader(key)
    record_type = reader.int16()
    if record_type in OFFSET_KEYS:
        group_id, topic, partition = reader.string(), reader.string(), reader.int32()
        offset = None if value is None else decode_offset_value(value)
        return OffsetRecord(group_id=group_id, topic=topic, partition=partition, value=offset)
    if record_type == GROUP_KEY:
        group_id = reader.string()
        return GroupMetadataRecord(group_id=group_id, value=None if value is None else _decode_group(value))
    if record_type < 0:
        raise PeerError(f"record type {record_type}")
    return None


def _encode_offset(value: OffsetValue) -> bytes:
    if value.expire_timestamp_ms is not None:
        # Only version 1 contains an expiry; it has no leader epoch.
        old = Writer().int16(1).int64(value.offset).string(value.metadata)
        return old.int64(value.commit_timestamp_ms).int64(value.expire_timestamp_ms).to_bytes()
    out = Writer(flexible=True).int16(4).int64(value.offset).int32(value.leader_epoch)
    out.string(value.metadata).int64(value.commit_timestamp_ms)
    if value.topic_id == NO_TOPIC_ID:
        return out.end().to_bytes()
    return out.uvarint(1).uvarint(TOPIC_ID_TAG).uvarint(len(value.topic_id)).raw(value.topic_id).to_bytes()


def decode_offset_value(data: bytes) -> OffsetValue:
    """Decode the value of an offset record, of any version. Raises PeerError."""
    if len(data) == _COMMON_VALUE.size and data.startswith(_COMMON_VALUE_BEGIN):
        _, offset, leader_epoch, metadata_bytes, commit_timestamp_ms, tags, topic_id = _COMMON_VALUE.unpack(data)
        if metadata_bytes == 1 and tags == _COMMON_TAGS:
            return OffsetValue(offset, leader_epoch, "", commit_timestamp_ms, None, topic_id)
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise PeerError(f"offset value of version {version}")
    offset = reader.int64()
    leader_epoch = reader.int32() if version >= 3 else -1
    reader.flexible = version >= 4
    metadata = reader.string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    return OffsetValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=None if expire_timestamp_ms == -1 else expire_timestamp_ms,
        topic_id=_decode_topic_id(reader),
    )


def _decode_topic_id(reader: Reader) -> bytes:
    topic_id = NO_TOPIC_ID
    for tag, field in reader.tagged_fields():
        if tag == TOPIC_ID_TAG:
            topic_id = field.raw(field.end)
    if len(topic_id) != len(NO_TOPIC_ID):
        raise PeerError(f"a topic id of {len(topic_id)} bytes")
    return topic_id


def _encode_group(value: GroupMetadataValue) -> bytes:
    out = Writer().int16(3).string(value.protocol_type).int32(value.generation)
    out.nullable_string(value.protocol).nullable_string(value.leader)
    out.int64(value.current_state_timestamp_ms).array(len(value.members))
    for member in value.members:
        out.string(member.member_id).nullable_string(member.instance_id)
        out.string(member.client_id).string(member.client_host)
        out.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        out.octets(member.subscription).octets(member.assignment)
    return out.to_bytes()


def _decode_group(data: bytes) -> GroupMetadataValue:
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise PeerError(f"group value of version {version}")
    reader.flexible = version >= 4
    protocol_type = reader.string()
    generation = reader.int32()
    protocol, leader = reader.nullable_string(), reader.nullable_string()
    current_state_timestamp_ms = reader.int64() if version >= 2 else -1
    count = reader.count(15 if reader.flexible else 18)
    members = tuple(_decode_member(reader, version) for _ in range(count))
    reader.skip_tagged_fields()
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
    member_id = reader.string()
    instance_id = None
    if version >= 3:
        instance_id = reader.nullable_string()
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = reader.octets(), reader.octets()
    reader.skip_tagged_fields()
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
