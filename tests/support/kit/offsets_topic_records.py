"""Records of the offsets topic for tests: keys and values as Kafka's coordinators write them, from a few words.

Partitions are those of topic `t`, whose id is TOPIC_ID. A record is a pair of key and value.
"""

from collections.abc import Sequence
from typing import Final

from ottla.groups.log.records import GroupMetadataRecord, OffsetRecord, encode_key, encode_value
from ottla.protocol.coordinator_records import GroupMetadataValue, MemberValue, OffsetValue
from ottla.protocol.model import Record
from ottla.protocol.wire.primitives import Writer
from tests.support.kit.consumer_protocol import encode_assignment, encode_subscription

TOPIC_ID: Final = bytes(range(16))
TOPIC_ID_TEXT: Final = "AAECAwQFBgcICQoLDA0ODw"
Pair = tuple[bytes, bytes | None]


def member(
    member_id: str,
    assigned: Sequence[int] = (),
    *,
    instance_id: str | None = None,
    topics: Sequence[str] = ("t",),
    owned: Sequence[int] = (),
) -> MemberValue:
    """A member of a classic group."""
    return MemberValue(
        member_id=member_id,
        instance_id=instance_id,
        client_id=f"client-{member_id}",
        client_host="/127.0.0.1",
        rebalance_timeout_ms=300_000,
        session_timeout_ms=45_000,
        subscription=encode_subscription(topics, {"t": owned} if owned else {}),
        assignment=encode_assignment({"t": assigned} if assigned else {}),
    )


def classic_group(group: str, generation: int, *members: MemberValue, joined_ms: int = 0, protocol: str = "range") -> Pair:
    """Type 2, a classic group at one generation."""
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=generation,
        protocol=protocol if members else None,
        leader=members[0].member_id if members else None,
        current_state_timestamp_ms=joined_ms,
        members=members,
    )
    record = GroupMetadataRecord(group_id=group, value=value)
    return encode_key(record), encode_value(record)


def commit(group: str, partition: int, offset: int | None, *, topic: str = "t", topic_id: bytes = TOPIC_ID) -> Pair:
    """Type 1, a committed offset; None deletes it."""
    value = None if offset is None else OffsetValue(offset, -1, "", 0, None, topic_id)
    record = OffsetRecord(group_id=group, topic=topic, partition=partition, value=value)
    return encode_key(record), encode_value(record)


def record_key(record_type: int, *names: str) -> bytes:
    """The key of any other type; alone, with None as its value, it is a tombstone."""
    out = Writer().int16(record_type)
    for name in names:
        out.string(name)
    return out.to_bytes()


def _value() -> Writer:
    return Writer(flexible=True).int16(0)


def group_epoch(group: str, epoch: int, metadata_hash: int = 7) -> Pair:
    """Type 3."""
    return record_key(3, group), _value().int32(epoch).tagged_fields({0: Writer().int64(metadata_hash).to_bytes()}).to_bytes()


def partition_metadata(group: str, partitions: int) -> Pair:
    """Type 4, as brokers before 4.1 write it: topic `t` with so many partitions."""
    out = _value().array(1).raw(TOPIC_ID).string("t").int32(partitions).array(0).end()
    return record_key(4, group), out.end().to_bytes()


def consumer_member(
    group: str,
    member_id: str,
    *,
    instance_id: str | None = None,
    topics: Sequence[str] = ("t",),
    regex: str | None = None,
    assignor: str | None = None,
) -> Pair:
    """Type 5."""
    out = _value().nullable_string(instance_id).nullable_string(None).string(f"client-{member_id}").string("/127.0.0.1")
    out.array(len(topics))
    for name in topics:
        out.string(name)
    return record_key(5, group, member_id), out.nullable_string(regex).int32(300_000).nullable_string(assignor).end().to_bytes()


def target_epoch(group: str, epoch: int, at_ms: int = 0) -> Pair:
    """Type 6."""
    out = _value().int32(epoch).tagged_fields({0: Writer().int64(at_ms).to_bytes()} if at_ms else {})
    return record_key(6, group), out.to_bytes()


def target_of(group: str, member_id: str, *partitions: int) -> Pair:
    """Type 7."""
    return record_key(7, group, member_id), _with_ids(_value(), partitions).end().to_bytes()


def current_of(group: str, member_id: str, epoch: int, *partitions: int, state: int = 0, revoking: Sequence[int] = ()) -> Pair:
    """Type 8; the states are Kafka's: 0 stable, 1 unrevoked, 2 unreleased partitions."""
    out = _value().int32(epoch).int32(epoch - 1).int8(state)
    return record_key(8, group, member_id), _with_ids(_with_ids(out, partitions), revoking).end().to_bytes()


def gone(group: str, member_id: str) -> list[Pair]:
    """The tombstones of a KIP-848 member that left or was fenced."""
    return [(record_key(number, group, member_id), None) for number in (8, 7, 5)]


def regular_expression(group: str, expression: str, *topics: str) -> Pair:
    """Type 16."""
    out = _value().array(len(topics))
    for name in topics:
        out.string(name)
    return record_key(16, group, expression), out.int64(1).int64(2).end().to_bytes()


def _with_ids(out: Writer, partitions: Sequence[int]) -> Writer:
    if not partitions:
        return out.array(0)
    return out.array(1).raw(TOPIC_ID).int32s(partitions).end()


def records_at(*timed: tuple[int, Pair]) -> list[Record]:
    """Records written at these times, in milliseconds, with offsets from 0 on."""
    return [Record(number, at_ms, *pair) for number, (at_ms, pair) in enumerate(timed)]
