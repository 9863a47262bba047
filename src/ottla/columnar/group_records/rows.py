"""A record of the offsets topic that is no commit as a row of plain values, by the plain decoders of core/groups: too rare for a kernel.

It decides which columns a record has, and never fails: what cannot be read leaves its columns out.
"""

import json
from collections.abc import Callable, Iterable
from typing import Any

from ottla.core.errors import PeerError
from ottla.core.groups.log.record_schemas import GROUP_METADATA, describe
from ottla.core.groups.log.records import GroupMetadataRecord, GroupMetadataValue, MemberValue, decode
from ottla.core.records.schema import DecodedRecord
from ottla.core.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE, parse_assignment, parse_subscribed_topics, parse_subscription
from ottla.core.wire.reader import Reader

Row = dict[str, Any]
NO_TIME_MS = -1
_TIMESTAMP_MS_MAX = (2**63 - 1) // 1000


def row_of(key: bytes | None, value: bytes | None) -> Row:
    """The columns of a record that is no commit: `is_known`, and those that it has of a generation's or `record`."""
    try:
        return {"is_known": False} if key is None else _known(key, value)
    except PeerError:
        return {"is_known": False}


def _known(key: bytes, value: bytes | None) -> Row:
    if Reader(key).int16() != GROUP_METADATA:
        return _json(key, value)
    record = decode(key, value)
    assert isinstance(record, GroupMetadataRecord), "the type of its key shows it"
    return {"is_known": True} if record.value is None else {"is_known": True, **_generation(record.value)}


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
        "owned_partitions": _or_none(_owned, member.subscription) if is_consumer else None,
        "assignment": _or_none(_assignment, member.assignment) if is_consumer else None,
    }


def _json(key: bytes, value: bytes | None) -> Row:
    found = describe(key, value)
    if not isinstance(found, DecodedRecord):
        return {"is_known": False}
    shown_key = {"type": str(found.record_type), "data": found.key}
    shown_value = None if found.value is None else {"version": str(found.value_version), "data": found.value}
    return {"is_known": True, "record": json.dumps({"key": shown_key, "value": shown_value}, ensure_ascii=False)}


def _owned(data: bytes) -> list[tuple[str, list[int]]]:
    return [(topic, list(partitions)) for topic, partitions in parse_subscription(data).owned.items()]


def _assignment(data: bytes) -> list[tuple[str, list[int]]]:
    return [(topic, list(partitions)) for topic, partitions in parse_assignment(data).items()]


def _or_none(parse: Callable[[bytes], Iterable[Any]], data: bytes) -> list[Any] | None:
    """The consumer's own data in the record; None where the bytes are not what a consumer would send."""
    try:
        return list(parse(data))
    except PeerError:
        return None


def _time_us(time_ms: int) -> int | None:
    """Microseconds since 1970; None where 64 bits do not hold them."""
    return time_ms * 1000 if -_TIMESTAMP_MS_MAX <= time_ms <= _TIMESTAMP_MS_MAX else None
