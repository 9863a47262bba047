"""The records that a script left in the offsets topic, as they are compared: decoded, in the order of the log, ids and times masked.

Of each record: its key, the version of its value, and every field. Tombstones in a row are put in order, since what deletes many things
at once goes through a hash map on Apache Kafka. It reads over the network, as anybody can.
"""

import struct
import uuid
from collections import defaultdict
from collections.abc import Mapping
from itertools import groupby
from typing import Any

from ottla.core.catalogue.catalogue import CONSUMER_OFFSETS
from ottla.core.groups.records import GroupMetadataRecord, GroupMetadataValue, OffsetRecord, OffsetValue, decode
from ottla.core.records.batch import decode_batch, split_batches
from ottla.testing.group_scripts.masks import Masks
from ottla.testing.group_scripts.play import FLUSH, SCRIPT_ENDS_AT
from ottla.testing.raw_client import RawClient

FETCH = 1
SUFFIXES = ("-simple", "-none")
"""A script has a group without members and one that is never made, beside the one of its own name."""
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
    """One group's records as plain values that two brokers can share."""
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
        shown = None if value is None else _offset(value, masks)
        return {"version": version, "topic": record.topic, "partition": record.partition, "value": shown}
    assert value is None or isinstance(value, GroupMetadataValue), f"{record.group_id} has {value}"
    return {"version": version, "group": record.group_id, "value": None if value is None else _group(value, masks)}


def _offset(value: Any, masks: Masks) -> dict[str, Any]:
    assert isinstance(value, OffsetValue), f"{value} is no offset"
    expires_after = None if value.expire_timestamp_ms is None else value.expire_timestamp_ms - value.commit_timestamp_ms
    shown = value._asdict() | {"commit_timestamp_ms": value.commit_timestamp_ms > 0, "expire_timestamp_ms": expires_after}
    return shown | {"topic_id": masks.topic_id(uuid.UUID(bytes=value.topic_id))}


def _group(value: GroupMetadataValue, masks: Masks) -> dict[str, Any]:
    members = [
        {name: getattr(member, name) for name in member.__dataclass_fields__} | {"member_id": masks.name_member(member.member_id)}
        for member in value.members
    ]
    shown = {name: getattr(value, name) for name in value.__dataclass_fields__}
    return shown | {
        "leader": None if value.leader is None else masks.name_member(value.leader),
        "current_state_timestamp_ms": value.current_state_timestamp_ms > 0,
        "members": sorted(members, key=lambda member: str(member["member_id"])),
    }
