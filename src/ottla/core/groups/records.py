"""Records of the offsets topic, typed, and their bytes (S2.1): what a coordinator writes and replays.

The bytes are Kafka's own: a key is a 16-bit record type and its fields, a value a 16-bit version and its fields, a null value is a
tombstone. Every version that Kafka ever wrote is read; written are the versions that Kafka 4.x writes. What a record means is not
decided here.
"""

from dataclasses import dataclass
from struct import Struct
from typing import NamedTuple

from ottla.core.errors import PeerError
from ottla.core.wire import Reader, Writer


class OffsetValue(NamedTuple):
    """A committed offset. `expire_timestamp_ms` is None unless the commit asked for its own expiry (value version 1).

    A tuple, because a broker may hold millions of them.
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
TOPIC_ID_TAG = 0

STRING_BYTES_MAX = 32_767
"""The lengths of strings in a key have 16 bits."""
STRING_CHARS_SAFE = STRING_BYTES_MAX // 4
"""UTF-8 takes at most four bytes a character: no shorter string needs to be encoded to be measured."""


_COMMON_VALUE = Struct(">hqiBq3s16s")
_COMMON_VALUE_BEGIN = b"\0\4"
_COMMON_TAGS = bytes([1, TOPIC_ID_TAG, 16])
"""Version 4 without metadata and with a topic id: as nearly all commits are, and a log may hold millions."""


def refuse_long_strings(*texts: str | None) -> None:
    """PeerError for a string that no record could hold; Kafka refuses it when it reads the request."""
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
    """A record from its bytes; None for a record type that is not known here, which its reader counts and skips.

    Raises PeerError when the bytes cannot be a record of the offsets topic.
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
        # Only version 1 can say when an offset expires; it has no leader epoch.
        old = Writer().int16(1).int64(value.offset).string(value.metadata)
        return old.int64(value.commit_timestamp_ms).int64(value.expire_timestamp_ms).to_bytes()
    out = Writer().int16(4).int64(value.offset).int32(value.leader_epoch)
    out.compact_string(value.metadata).int64(value.commit_timestamp_ms)
    if value.topic_id == NO_TOPIC_ID:
        return out.uvarint(0).to_bytes()
    return out.uvarint(1).uvarint(TOPIC_ID_TAG).uvarint(len(value.topic_id)).raw(value.topic_id).to_bytes()


def decode_offset_value(data: bytes) -> OffsetValue:
    """The value of an offset record, of any version. Raises PeerError."""
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
    metadata = reader.string() if version < 4 else reader.compact_string()
    commit_timestamp_ms = reader.int64()
    expire_timestamp_ms = reader.int64() if version == 1 else -1
    return OffsetValue(
        offset=offset,
        leader_epoch=leader_epoch,
        metadata=metadata,
        commit_timestamp_ms=commit_timestamp_ms,
        expire_timestamp_ms=None if expire_timestamp_ms == -1 else expire_timestamp_ms,
        topic_id=_decode_topic_id(reader) if version >= 4 else NO_TOPIC_ID,
    )


def _decode_topic_id(reader: Reader) -> bytes:
    topic_id = NO_TOPIC_ID
    for _ in range(reader.uvarint()):
        tag = reader.uvarint()
        field = reader.raw(reader.uvarint())
        if tag == TOPIC_ID_TAG:
            topic_id = field
    if len(topic_id) != len(NO_TOPIC_ID):
        raise PeerError(f"a topic id of {len(topic_id)} bytes")
    return topic_id


def _encode_group(value: GroupMetadataValue) -> bytes:
    out = Writer().int16(3).string(value.protocol_type).int32(value.generation)
    out.nullable_string(value.protocol).nullable_string(value.leader)
    out.int64(value.current_state_timestamp_ms).int32(len(value.members))
    for member in value.members:
        out.string(member.member_id).nullable_string(member.instance_id)
        out.string(member.client_id).string(member.client_host)
        out.int32(member.rebalance_timeout_ms).int32(member.session_timeout_ms)
        out.int32(len(member.subscription)).raw(member.subscription)
        out.int32(len(member.assignment)).raw(member.assignment)
    return out.to_bytes()


def _decode_group(data: bytes) -> GroupMetadataValue:
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= 4:
        raise PeerError(f"group value of version {version}")
    flexible = version >= 4
    protocol_type = reader.compact_string() if flexible else reader.string()
    generation = reader.int32()
    nullable_text = reader.compact_nullable_string if flexible else reader.nullable_string
    protocol, leader = nullable_text(), nullable_text()
    current_state_timestamp_ms = reader.int64() if version >= 2 else -1
    count = reader.count(15 if flexible else 18, compact=flexible)
    members = tuple(_decode_member(reader, version) for _ in range(count))
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
    member_id = text()
    instance_id = None
    if version >= 3:
        instance_id = reader.compact_nullable_string() if flexible else reader.nullable_string()
    client_id, client_host = text(), text()
    rebalance_timeout_ms = reader.int32() if version >= 1 else -1
    session_timeout_ms = reader.int32()
    subscription, assignment = _data(reader, flexible), _data(reader, flexible)
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


def _data(reader: Reader, flexible: bool) -> bytes:
    return reader.raw(reader.uvarint() - 1 if flexible else reader.int32())
