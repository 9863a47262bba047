"""The records that a script wrote to the offsets topic, in comparable form: decoded, in log order, with ids and times masked.

Of each record: its key, the version of its value, and every field. Consecutive tombstones are sorted, since Apache Kafka deletes in the
order of a hash map. Records are fetched over the network.
"""

import struct
import uuid
from collections import defaultdict
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ottla.core.groups.log.records import GroupMetadataRecord, GroupMetadataValue, OffsetRecord, OffsetValue, decode
from ottla.core.metadata.topics import CONSUMER_OFFSETS
from ottla.core.records.batch import decode_batch, split_batches
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.group_scripts.masks import Masks
from ottla.testing.group_scripts.player import FLUSH, SCRIPT_ENDS_AT

FETCH = 1
SUFFIXES = ("-simple", "-none")
"""A script has a group without members and one that is never created, besides the one of its own name."""
PARTITION_BYTES_MAX = 16 * 1024 * 1024


def read_group_records(bootstrap_servers: str) -> dict[str, list[tuple[int | None, Any]]]:
    """The records of every group until its script ended: the version of each value (None: a tombstone) and the record."""
    found: dict[str, list[tuple[int | None, Any]]] = defaultdict(list)
    with RawClient(bootstrap_servers) as client:
        at, end = 0, 1
        while at < end:
            part = _fetch(client, at)
            end = int(part.high_watermark)
            data = bytes(part.records or b"")
            for start, header in split_batches(data):
                for each in decode_batch(data, start):
                    record = decode(each.key, each.value)
                    if record is not None and each.offset >= at and not _is_over(record.group_id, found):
                        version = None if each.value is None else struct.unpack_from(">h", each.value)[0]
                        found[record.group_id].append((version, record))
                at = header.next_offset
    return found


def comparable_records(records: list[tuple[int | None, Any]], masks: Masks) -> list[dict[str, Any]]:
    """One group's records as plain values, equal on two brokers."""
    plain = [_plain(version, record, masks) for version, record in records]
    in_order: list[dict[str, Any]] = []
    for is_tombstone, run in groupby(plain, lambda each: each["version"] is None):
        records_in_a_row = list(run)
        in_order.extend(sorted(records_in_a_row, key=repr) if is_tombstone else records_in_a_row)
    return in_order


def _is_over(group_id: str, found: Mapping[str, list[tuple[int | None, Any]]]) -> bool:
    for suffix in ("", *SUFFIXES):
        flushes = found.get(group_id.removesuffix(suffix) + FLUSH)
        if flushes and flushes[-1][1].value.offset == SCRIPT_ENDS_AT:
            return True
    return False


def _fetch(client: RawClient, at: int) -> Any:
    wanted = [{"partition": 0, "current_leader_epoch": -1, "fetch_offset": at, "partition_max_bytes": PARTITION_BYTES_MAX}]
    values = {"replica_id": -1, "max_wait": 100, "max_bytes": PARTITION_BYTES_MAX, "session_epoch": -1}
    answer = client.call(FETCH, 11, topics=[{"topic": CONSUMER_OFFSETS, "partitions": wanted}], **values)
    (part,) = answer.responses[0].partitions
    assert part.error_code == 0, part
    return part


def _plain(version: int | None, record: GroupMetadataRecord | OffsetRecord, masks: Masks) -> dict[str, Any]:
    value = record.value
    if isinstance(record, OffsetRecord):
        fields = None if value is None else _offset(value, masks)
        return {"version": version, "topic": record.topic, "partition": record.partition, "value": fields}
    assert value is None or isinstance(value, GroupMetadataValue), f"{record.group_id} has {value}"
    return {"version": version, "group": record.group_id, "value": None if value is None else _group(value, masks)}


def _offset(value: Any, masks: Masks) -> dict[str, Any]:
    assert isinstance(value, OffsetValue), f"{value} is no offset"
    expires_after = None if value.expire_timestamp_ms is None else value.expire_timestamp_ms - value.commit_timestamp_ms
    fields = value._asdict() | {"commit_timestamp_ms": value.commit_timestamp_ms > 0, "expire_timestamp_ms": expires_after}
    return fields | {"topic_id": masks.topic_id(uuid.UUID(bytes=value.topic_id))}


def _group(value: GroupMetadataValue, masks: Masks) -> dict[str, Any]:
    members = [
        {name: getattr(member, name) for name in member.__dataclass_fields__} | {"member_id": masks.name_member(member.member_id)}
        for member in value.members
    ]
    fields = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return fields | {
        "leader": None if value.leader is None else masks.name_member(value.leader),
        "current_state_timestamp_ms": value.current_state_timestamp_ms > 0,
        "members": sorted(members, key=lambda member: str(member["member_id"])),
    }
