"""Decoding of the offsets topic for diagnosis: commits as small tuples, all other records as the values of Kafka's own fields.

Groups commit to the same partitions again and again, so keys of commits are cached, and so is what members embed in their groups' records.
"""

from base64 import urlsafe_b64encode
from collections.abc import Mapping
from functools import lru_cache
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.groups.log.record_schemas import GROUP_METADATA, describe
from ottla.core.groups.log.records import NO_TOPIC_ID, OFFSET_KEYS, GroupMetadataRecord, GroupMetadataValue, decode, decode_offset_value
from ottla.core.model import OffsetCommit
from ottla.core.records.schema import DecodedRecord, JsonValue, UnknownRecord
from ottla.core.wire.consumer_protocol import CACHED_BYTES_MAX, CONSUMER_PROTOCOL_TYPE, parse_assignment, parse_subscription
from ottla.core.wire.reader import Reader

CONSUMER_GROUP_TYPES: Final = frozenset({2, 3, 4, 5, 6, 7, 8, 16})
"""Classic groups and those of KIP-848. Records of share and streams groups are recognised by their number alone."""
_KEYS_MAX: Final = 1_000_000
_EMBEDDED_MAX: Final = 4_096
_VERSION_MAX: Final = 4


def _decode_other(record_type: int, key: bytes, value: bytes | None) -> DecodedRecord | UnknownRecord:
    if record_type not in CONSUMER_GROUP_TYPES:
        return UnknownRecord(record_type, None)
    if record_type != GROUP_METADATA or value is None:
        return describe(key, value)
    version = int.from_bytes(value[:2], signed=True)
    if not 0 <= version <= _VERSION_MAX:
        return UnknownRecord(record_type, version)
    found = decode(key, value)
    assert isinstance(found, GroupMetadataRecord), "its key has this type"
    assert found.value is not None, "it has a value"
    return DecodedRecord(GROUP_METADATA, {"group": found.group_id}, version, _classic_group(found.value))


def _classic_group(value: GroupMetadataValue) -> dict[str, JsonValue]:
    """The values of `describe`, as far as evidence reads them: a group's record is decoded in a third of the time."""
    is_consumer = value.protocol_type == CONSUMER_PROTOCOL_TYPE
    return {
        "protocolType": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "currentStateTimestamp": value.current_state_timestamp_ms,
        "members": [
            {
                "memberId": member.member_id,
                "groupInstanceId": member.instance_id,
                "clientId": member.client_id,
                "clientHost": member.client_host,
                "rebalanceTimeout": member.rebalance_timeout_ms,
                "sessionTimeout": member.session_timeout_ms,
                "subscription": _embedded(member.subscription, is_subscription=True) if is_consumer else None,
                "assignment": _embedded(member.assignment, is_subscription=False) if is_consumer else None,
            }
            for member in value.members
        ],
    }


def _embedded(data: bytes, *, is_subscription: bool) -> JsonValue:
    """What a consumer's own bytes hold; members repeat them, so short ones are cached."""
    return (_read_cached if len(data) <= CACHED_BYTES_MAX else _read)(data, is_subscription)


def _read(data: bytes, is_subscription: bool) -> JsonValue:
    try:
        if not is_subscription:
            return {"assignedPartitions": _partitions(parse_assignment(data))}
        found = parse_subscription(data)
    except PeerError:
        return None
    return {"topics": found.topics, "ownedPartitions": _partitions(found.owned)}


_read_cached = lru_cache(maxsize=_EMBEDDED_MAX)(_read)


def _partitions(by_topic: Mapping[str, tuple[int, ...]]) -> JsonValue:
    return [{"topic": topic, "partitions": numbers} for topic, numbers in by_topic.items()]


class EvidenceDecoder:
    """Decodes one record after another; `decode` raises PeerError for bytes that are no record of the offsets topic."""

    def __init__(self) -> None:
        self._keys: dict[bytes, tuple[str, str, int]] = {}
        self._topic_ids: dict[bytes, str] = {NO_TOPIC_ID: ""}

    def decode(self, key: bytes | None, value: bytes | None) -> OffsetCommit | DecodedRecord | UnknownRecord:
        """The record's values; an UnknownRecord for those of other group types, and of types and versions that do not exist yet."""
        if key is None:
            raise PeerError("a record of the offsets topic has no key")
        known = self._keys.get(key)
        if known is None:
            record_type = Reader(key).int16()
            if record_type not in OFFSET_KEYS:
                return _decode_other(record_type, key, value)
            known = self._key(key)
        if value is None:
            return OffsetCommit(*known, None, "")
        if not 0 <= int.from_bytes(value[:2], signed=True) <= _VERSION_MAX:
            return UnknownRecord(int.from_bytes(key[:2]), int.from_bytes(value[:2], signed=True))
        committed = decode_offset_value(value)
        return OffsetCommit(*known, committed.offset, self._topic_id(committed.topic_id))

    def _key(self, key: bytes) -> tuple[str, str, int]:
        reader = Reader(key)
        reader.skip(2)
        known = (reader.string(), reader.string(), reader.int32())
        if len(self._keys) >= _KEYS_MAX:
            self._keys.clear()
        self._keys[key] = known
        return known

    def _topic_id(self, topic_id: bytes) -> str:
        text = self._topic_ids.get(topic_id)
        if text is None:
            text = urlsafe_b64encode(topic_id).decode().rstrip("=")
            if len(self._topic_ids) < _KEYS_MAX:
                self._topic_ids[topic_id] = text
        return text
