"""One record of the offsets topic as a row of plain values, by the plain decoders of core/groups: what is too rare for a kernel.

It decides which columns a record has, and never fails: what cannot be read leaves its columns out.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable
from typing import Any

from ottla.core.errors import PeerError
from ottla.core.groups.record_schemas import RECORD_TYPES, describe
from ottla.core.groups.records import NO_TOPIC_ID, GroupMetadataRecord, GroupMetadataValue, MemberValue, OffsetRecord, OffsetValue, decode
from ottla.core.groups.subscription import CONSUMER_PROTOCOL_TYPE, parse_assignment, parse_subscribed_topics
from ottla.core.records.schema import DecodedRecord
from ottla.core.wire import Reader

Row = dict[str, Any]
NO_TIME_MS = -1
_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000
_TYPED = (0, 1, 2)


def row_of(key: bytes | None, value: bytes | None) -> Row:
    """The columns that a record's key and value give; those that it does not have are missing."""
    row: Row = {"is_tombstone": value is None, "is_known": False}
    if key is None or len(key) < 2:
        return row
    row["record_type"] = Reader(key).int16()
    if value is not None and len(value) >= 2 and row["record_type"] in RECORD_TYPES:
        row["value_version"] = Reader(value).int16()
    try:
        row |= _key(key)
        row |= _typed(key, value) if row["record_type"] in _TYPED else _json(key, value)
    except PeerError:
        return row
    return row


def _key(key: bytes) -> Row:
    reader = Reader(key)
    record_type = reader.int16()
    if record_type not in RECORD_TYPES:
        return {}
    row: Row = {"group": reader.string()}
    if record_type < 2:
        row |= {"topic": reader.string(), "topic_partition": reader.int32()}
    return row


def _typed(key: bytes, value: bytes | None) -> Row:
    record = decode(key, value)
    row: Row = {"is_known": True}
    if isinstance(record, OffsetRecord) and record.value is not None:
        return row | _commit(record.value)
    if isinstance(record, GroupMetadataRecord) and record.value is not None:
        return row | _generation(record.value)
    return row


def _commit(value: OffsetValue) -> Row:
    return {
        "committed_offset": value.offset,
        "leader_epoch": value.leader_epoch,
        "metadata": value.metadata,
        "commit_timestamp": _time_us(value.commit_timestamp_ms),
        "expire_timestamp": None if value.expire_timestamp_ms is None else _time_us(value.expire_timestamp_ms),
        "topic_id": None if value.topic_id == NO_TOPIC_ID else _base64(value.topic_id),
    }


def _generation(value: GroupMetadataValue) -> Row:
    is_consumer = value.protocol_type == CONSUMER_PROTOCOL_TYPE
    return {
        "protocol_type": value.protocol_type,
        "generation": value.generation,
        "protocol": value.protocol,
        "leader": value.leader,
        "state_timestamp": None if value.current_state_timestamp_ms == NO_TIME_MS else _time_us(value.current_state_timestamp_ms),
        "members": [_member(member, is_consumer) for member in value.members],
    }


def _member(member: MemberValue, is_consumer: bool) -> Row:
    return {
        "member_id": member.member_id,
        "group_instance_id": member.instance_id,
        "client_id": member.client_id,
        "client_host": member.client_host,
        "rebalance_timeout": member.rebalance_timeout_ms,
        "session_timeout": member.session_timeout_ms,
        "subscribed_topics": _or_none(parse_subscribed_topics, member.subscription) if is_consumer else None,
        "assignment": _or_none(_assignment, member.assignment) if is_consumer else None,
    }


def _json(key: bytes, value: bytes | None) -> Row:
    found = describe(key, value)
    if not isinstance(found, DecodedRecord):
        return {}
    shown_key = {"type": str(found.record_type), "data": found.key}
    shown_value = None if found.value is None else {"version": str(found.value_version), "data": found.value}
    return {"is_known": True, "record": json.dumps({"key": shown_key, "value": shown_value}, ensure_ascii=False)}


def _assignment(data: bytes) -> list[tuple[str, list[int]]]:
    return [(topic, list(partitions)) for topic, partitions in parse_assignment(data).items()]


def _or_none(parse: Callable[[bytes], Iterable[Any]], data: bytes) -> list[Any] | None:
    """What a consumer embedded in the record; None where the bytes are not what a consumer would send."""
    try:
        return list(parse(data))
    except PeerError:
        return None


def _base64(topic_id: bytes) -> str:
    return urlsafe_b64encode(topic_id).decode().rstrip("=")


def _time_us(time_ms: int) -> int | None:
    """Microseconds since 1970; None where 64 bits do not hold them."""
    return time_ms * 1000 if -_TIMESTAMP_MS_MAX <= time_ms <= _TIMESTAMP_MS_MAX else None
