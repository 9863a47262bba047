"""Records of the offsets topic as the group coordinator writes and replays them, their bytes, and quick ways to read many of them.

The codec of all record types is in protocol.coordinator_records; here are those that the coordinator has, in the versions that Kafka 4.x
writes. A log may hold millions of commits, and groups commit to the same partitions again and again: commits are read by a fast way, for
diagnosis as small tuples whose keys are cached. And batches are cut down to the records of some groups; offsets, times, producers and
transactions stay what they are.
"""

from collections.abc import Callable, Container
from dataclasses import dataclass, replace
from struct import Struct
from typing import Any, Final

from ottla.protocol.coordinator_records import (
    GROUP_METADATA,
    OFFSET_COMMIT,
    OFFSET_VALUE,
    OFFSETS_TOPIC_TYPES,
    ClassicGroupKey,
    GroupKey,
    GroupMetadataValue,
    MemberKey,
    MemberValue,
    OffsetKey,
    OffsetValue,
    RegularExpressionKey,
    decode_offsets_record,
)
from ottla.protocol.errors import PeerError
from ottla.protocol.model import OffsetCommit, Record
from ottla.protocol.record_codec import NO_ID, DecodedRecord, UnknownRecord, uuid_text
from ottla.protocol.records.batch import Batch, BatchHeader, decode_batch, empty_batch, encode_batch, read_header
from ottla.protocol.wire.primitives import Reader

GroupOf = Callable[[bytes | None], str | None]

CONSUMER_GROUP_TYPES: Final = frozenset({2, 3, 4, 5, 6, 7, 8, 16})
"""Classic groups and those of KIP-848. Records of share and streams groups are recognised by their number alone."""
_KEYS_MAX: Final = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetRecord:
    """Key type 1: one group's offset in one partition; `value` None is the tombstone."""

    group_id: str
    topic: str
    partition: int
    value: OffsetValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupMetadataRecord:
    """Key type 2: a classic group; `value` None is the tombstone."""

    group_id: str
    value: GroupMetadataValue | None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerGroupRecord:
    """A record of a consumer group (key types 3 to 8, and 16). `name` is a member's id or a regular expression, "" where the key has none;
    `value` None is the tombstone."""

    record_type: int
    group_id: str
    name: str = ""
    value: Any


GroupRecord = OffsetRecord | GroupMetadataRecord | ConsumerGroupRecord

REGULAR_EXPRESSION: Final = 16
CONSUMER_RECORD_TYPES: Final = frozenset({3, 4, 5, 6, 7, 8, REGULAR_EXPRESSION})
_OF_A_MEMBER: Final = frozenset({5, 7, 8})

OFFSET_KEYS = (0, OFFSET_COMMIT)
OFFSET_VERSION, EXPIRING_OFFSET_VERSION, GROUP_VERSION = 4, 1, 3
"""The versions that are written; only version 1 has an expiry, and it has no leader epoch."""

STRING_BYTES_MAX = 32_767
"""Strings in a key have 16-bit lengths."""
STRING_CHARS_SAFE = STRING_BYTES_MAX // 4
"""UTF-8 takes at most four bytes a character, so shorter strings need not be encoded to be measured."""


_COMMON_VALUE = Struct(">hqiBq3s16s")
_COMMON_VALUE_BEGIN = b"\0\4"
_COMMON_TAGS = bytes([1, 0, 16])
"""Version 4 without metadata and with a topic id, like nearly all commits."""


def refuse_long_strings(*texts: str | None) -> None:
    """Raise PeerError for a string that no record can hold; Kafka refuses it when it reads the request."""
    for text in texts:
        if text is not None and len(text) > STRING_CHARS_SAFE and len(text.encode()) > STRING_BYTES_MAX:
            raise PeerError(f"a string of {len(text)} characters, where {STRING_BYTES_MAX} bytes are allowed")


def encode_key(record: GroupRecord) -> bytes:
    """The key under which compaction keeps one record."""
    if isinstance(record, OffsetRecord):
        offset_key = OffsetKey(group_id=record.group_id, topic=record.topic, partition=record.partition)
        return OFFSETS_TOPIC_TYPES[OFFSET_COMMIT].encode_key(OFFSET_COMMIT, offset_key)
    if isinstance(record, GroupMetadataRecord):
        return OFFSETS_TOPIC_TYPES[GROUP_METADATA].encode_key(GROUP_METADATA, ClassicGroupKey(group_id=record.group_id))
    key: GroupKey | MemberKey | RegularExpressionKey
    if record.record_type in _OF_A_MEMBER:
        key = MemberKey(group_id=record.group_id, member_id=record.name)
    elif record.record_type == REGULAR_EXPRESSION:
        key = RegularExpressionKey(group_id=record.group_id, regular_expression=record.name)
    else:
        key = GroupKey(group_id=record.group_id)
    return OFFSETS_TOPIC_TYPES[record.record_type].encode_key(record.record_type, key)


def encode_value(record: GroupRecord) -> bytes | None:
    """The value, None for a tombstone; the version is the one that Kafka 4.x would choose."""
    if record.value is None:
        return None
    if isinstance(record.value, OffsetValue):
        version = OFFSET_VERSION if record.value.expire_timestamp_ms is None else EXPIRING_OFFSET_VERSION
        return OFFSETS_TOPIC_TYPES[OFFSET_COMMIT].encode_value(record.value, version)
    if isinstance(record, ConsumerGroupRecord):
        return OFFSETS_TOPIC_TYPES[record.record_type].encode_value(record.value, 0)
    return OFFSETS_TOPIC_TYPES[GROUP_METADATA].encode_value(record.value, GROUP_VERSION)


def decode(key: bytes | None, value: bytes | None) -> GroupRecord | None:
    """The record as the coordinator replays it; None for one of a type that it does not have, which the caller skips.

    Raises PeerError if the bytes cannot be a record of the offsets topic.
    """
    if key is None:
        raise PeerError("a record of the offsets topic has no key")
    record_type = Reader(key).int16()
    if record_type < 0:
        raise PeerError(f"record type {record_type}")
    if record_type > GROUP_METADATA and record_type not in CONSUMER_RECORD_TYPES:
        return None
    record = decode_offsets_record(key, value)
    if isinstance(record, UnknownRecord):
        raise PeerError(f"{'offset' if record_type in OFFSET_KEYS else 'group'} value of version {record.value_version}")
    if record.record_type in CONSUMER_RECORD_TYPES:
        name = getattr(record.key, "member_id", "") or getattr(record.key, "regular_expression", "")
        return ConsumerGroupRecord(record_type=record_type, group_id=record.key.group_id, name=name, value=record.value)
    if record.record_type == GROUP_METADATA:
        return GroupMetadataRecord(group_id=record.key.group_id, value=record.value and checked_group(record.value))
    return OffsetRecord(group_id=record.key.group_id, topic=record.key.topic, partition=record.key.partition, value=record.value)


def checked_group(value: GroupMetadataValue) -> GroupMetadataValue:
    """The value with a rebalance timeout for each member, also of version 0; PeerError if it names a member twice."""
    if len({member.member_id for member in value.members}) != len(value.members):
        raise PeerError("a group record names a member twice")
    if all(member.rebalance_timeout_ms != -1 for member in value.members):
        return value
    return replace(value, members=tuple(map(_with_rebalance_timeout, value.members)))


def _with_rebalance_timeout(member: MemberValue) -> MemberValue:
    return replace(member, rebalance_timeout_ms=member.session_timeout_ms) if member.rebalance_timeout_ms == -1 else member


def decode_offset_value(data: bytes) -> OffsetValue:
    """Decode the value of an offset record, of any version. Raises PeerError."""
    if len(data) == _COMMON_VALUE.size and data.startswith(_COMMON_VALUE_BEGIN):
        _, offset, leader_epoch, metadata_bytes, commit_timestamp_ms, tags, topic_id = _COMMON_VALUE.unpack(data)
        if metadata_bytes == 1 and tags == _COMMON_TAGS:
            return OffsetValue(offset, leader_epoch, "", commit_timestamp_ms, None, topic_id)
    reader = Reader(data)
    version = reader.int16()
    if not 0 <= version <= OFFSET_VALUE.version_max:
        raise PeerError(f"offset value of version {version}")
    return OFFSET_VALUE.decode(reader, version)


def group_of_record(key: bytes | None) -> str | None:
    """The group of a record of the offsets topic, which every type of key has first; None for bytes that are no key."""
    try:
        reader = Reader(key or b"")
        reader.skip(2)
        return reader.string()
    except PeerError:
        return None


def group_of_event(key: bytes | None) -> str | None:
    """The group of a record of the group events topic: its key."""
    return None if key is None else key.decode(errors="replace")


def keep_groups(batch: Batch, groups: Container[str], group_of: GroupOf) -> Batch:
    """The batch with these groups' records, without any if it has none of them; control batches and damaged ones stay whole."""
    return batch if batch.header.is_control else keep_records(batch, lambda record: group_of(record.key) in groups)


def keep_records(batch: Batch, is_kept: Callable[[Record], bool]) -> Batch:
    """The batch with these records alone, also without any; a damaged one stays whole."""
    header = batch.header
    try:
        records = decode_batch(batch.data)
    except PeerError:
        return batch
    kept = list(filter(is_kept, records))
    if len(kept) == len(records):
        return batch
    data = bytes(_encode(header, kept) if kept else empty_batch(header))
    return Batch(read_header(data), data)


def _encode(header: BatchHeader, kept: list[Record]) -> bytearray:
    return encode_batch(
        kept,
        base_offset=header.base_offset,
        codec=header.codec,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_log_append_time=header.is_log_append_time,
        is_transactional=header.is_transactional,
        delete_horizon_ms=header.delete_horizon_ms,
        last_offset=header.last_offset,
    )


def _decode_other(record_type: int, key: bytes, value: bytes | None) -> DecodedRecord | UnknownRecord:
    if record_type not in CONSUMER_GROUP_TYPES:
        return UnknownRecord(record_type, None)
    record = decode_offsets_record(key, value)
    if isinstance(record, DecodedRecord) and isinstance(record.value, GroupMetadataValue):
        return replace(record, value=checked_group(record.value))
    return record


class EvidenceDecoder:
    """Decodes one record after another; `decode` raises PeerError for bytes that are no record of the offsets topic."""

    def __init__(self) -> None:
        self._keys: dict[bytes, tuple[str, str, int]] = {}

    def decode(self, key: bytes | None, value: bytes | None) -> OffsetCommit | DecodedRecord | UnknownRecord:
        """The record's values; an UnknownRecord for those of other group types, and of types and versions that do not exist yet."""
        if key is None:
            raise PeerError("a record of the offsets topic has no key")
        target = self._keys.get(key)
        if target is None:
            record_type = Reader(key).int16()
            if record_type not in OFFSET_KEYS:
                return _decode_other(record_type, key, value)
            target = self._key(key)
        if value is None:
            return OffsetCommit(*target, None, "")
        if not 0 <= int.from_bytes(value[:2], signed=True) <= OFFSET_VALUE.version_max:
            return UnknownRecord(int.from_bytes(key[:2]), int.from_bytes(value[:2], signed=True))
        committed = decode_offset_value(value)
        return OffsetCommit(*target, committed.offset, "" if committed.topic_id == NO_ID else uuid_text(committed.topic_id))

    def _key(self, key: bytes) -> tuple[str, str, int]:
        reader = Reader(key)
        reader.skip(2)
        target = (reader.string(), reader.string(), reader.int32())
        if len(self._keys) >= _KEYS_MAX:
            self._keys.clear()
        self._keys[key] = target
        return target
