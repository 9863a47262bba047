"""The records of the cluster metadata and their bytes, as in Kafka's own metadata log (KIP-631).

A value is: frame version (1), record type, record version (all unsigned varints), then the fields in flexible encoding. There are no keys.
cluster_metadata.py replays the records. Types that are not decoded here are skipped, and stay in the log.
"""

from dataclasses import dataclass
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.wire.fields import Buffer
from ottla.core.wire.reader import Reader
from ottla.core.wire.writer import Writer

FRAME_VERSION: Final = 1
ID_BYTES: Final = 16
NO_LEADER: Final = -1

ACCESS_CONTROL_ENTRY: Final = 18
NOT_ENFORCED: Final = {10: "delegation tokens", 11: "SCRAM credentials", 14: "quotas", ACCESS_CONTROL_ENTRY: "access control entries"}
"""Types of records that this broker does not enforce, and their names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterBrokerRecord:
    """A broker registered (type 0); its epoch is the offset of this record in the log that Kafka's controller wrote."""

    broker_id: int
    broker_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic was created (type 2). `topic_id` is 16 bytes."""

    name: str
    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition was created, or (in a snapshot) exists (type 3). `directories`: its replicas' data directories' ids; empty: not known."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    directories: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionChangeRecord:
    """A partition changed in what is not None (type 5). Naming a leader, even the same one, raises the leader epoch by one."""

    topic_id: bytes
    partition: int
    leader: int | None = None
    in_sync: tuple[int, ...] | None = None
    replicas: tuple[int, ...] | None = None
    eligible_leaders: tuple[int, ...] | None = None
    last_known_leaders: tuple[int, ...] | None = None
    directories: tuple[bytes, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting was set, or deleted (`value` None) (type 4). `resource_type`: 2 topic, 4 broker, and others."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic was deleted, with its partitions and settings (type 9)."""

    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class FeatureLevelRecord:
    """A feature of the cluster has a version (type 12); `metadata.version` says which record versions may be written."""

    name: str
    level: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """Producer ids below `next_producer_id` have been handed to a broker (type 15)."""

    broker_id: int
    next_producer_id: int


@dataclass(frozen=True, slots=True)
class BeginTransaction:
    """The records that follow take effect when the transaction ends (type 23, KIP-868)."""


@dataclass(frozen=True, slots=True)
class EndTransaction:
    """The records since the begin take effect (type 24)."""


@dataclass(frozen=True, slots=True)
class AbortTransaction:
    """The records since the begin have no effect (type 25)."""


MetadataRecord = (
    RegisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
)
TransactionMark = BeginTransaction | EndTransaction | AbortTransaction

# Tags of the optional fields of PartitionChangeRecord.
_IN_SYNC, _LEADER, _REPLICAS, _ELIGIBLE, _LAST_KNOWN, _DIRECTORIES = 0, 1, 2, 6, 7, 8


def encode(record: MetadataRecord | TransactionMark) -> bytes:
    """Encode a record as a value, in the lowest version of its type that has its fields."""
    out = Writer(flexible=True).uvarint(FRAME_VERSION)
    match record:
        case TopicRecord():
            out.uvarint(2).uvarint(0).string(record.name).raw(record.topic_id)
        case PartitionRecord():
            _encode_partition(record, out)
        case PartitionChangeRecord():
            return _encode_change(record, out)
        case ConfigRecord():
            out.uvarint(4).uvarint(0).int8(record.resource_type).string(record.resource_name).string(record.name)
            out.nullable_string(record.value)
        case RemoveTopicRecord():
            out.uvarint(9).uvarint(0).raw(record.topic_id)
        case FeatureLevelRecord():
            out.uvarint(12).uvarint(0).string(record.name).int16(record.level)
        case ProducerIdsRecord():
            out.uvarint(15).uvarint(0).int32(record.broker_id).int64(0).int64(record.next_producer_id)
        case AbortTransaction():
            out.uvarint(25).uvarint(0)
        case _:
            raise AssertionError(f"{type(record).__name__} is written by Kafka's controller only")
    return out.end().to_bytes()


def _encode_partition(record: PartitionRecord, out: Writer) -> None:
    out.uvarint(3).uvarint(1 if record.directories else 0)
    out.int32(record.partition).raw(record.topic_id)
    for numbers in (record.replicas, record.replicas, (), ()):  # replicas, in sync, being removed, being added
        out.int32s(numbers)
    out.int32(record.leader).int32(record.leader_epoch).int32(0)
    if record.directories:
        out.raw(_ids(record.directories))


def _encode_change(record: PartitionChangeRecord, out: Writer) -> bytes:
    leaders = {_ELIGIBLE: record.eligible_leaders, _LAST_KNOWN: record.last_known_leaders}
    version = 2 if any(value is not None for value in leaders.values()) else 1 if record.directories is not None else 0
    numbers = {_IN_SYNC: record.in_sync, _REPLICAS: record.replicas} | leaders
    tags: dict[int, Buffer] = {tag: Writer(flexible=True).int32s(value).to_bytes() for tag, value in numbers.items() if value is not None}
    if record.leader is not None:
        tags[_LEADER] = Writer().int32(record.leader).to_bytes()
    if record.directories is not None:
        tags[_DIRECTORIES] = _ids(record.directories)
    out.uvarint(5).uvarint(version).int32(record.partition).raw(record.topic_id)
    return out.tagged_fields(tags).to_bytes()


def _ids(ids: tuple[bytes, ...]) -> bytes:
    return Writer(flexible=True).array(len(ids)).raw(b"".join(ids)).to_bytes()


def record_type(value: bytes) -> int:
    """The number of the record's type. Raises PeerError."""
    read = Reader(value)
    if read.uvarint() != FRAME_VERSION:
        raise PeerError("a cluster metadata record of an unknown frame version")
    return read.uvarint()


def decode(value: bytes) -> MetadataRecord | TransactionMark | None:
    """Decode a value; None for a type that is skipped (forward compatibility). Raises PeerError for invalid bytes."""
    kind = record_type(value)
    read = Reader(value, flexible=True)
    read.uvarint(), read.uvarint()
    version = read.uvarint()
    match kind:
        case 0:
            broker_id = read.int32()
            read.skip((1 if version >= 2 else 0) + ID_BYTES)  # whether it comes from ZooKeeper, and its incarnation
            return RegisterBrokerRecord(broker_id=broker_id, broker_epoch=read.int64())
        case 2:
            return TopicRecord(name=read.string(), topic_id=read.raw(ID_BYTES))
        case 3:
            return _decode_partition(read, version)
        case 4:
            return ConfigRecord(
                resource_type=read.int8(),
                resource_name=read.string(),
                name=read.string(),
                value=read.nullable_string(),
            )
        case 5:
            return _decode_change(read)
        case 9:
            return RemoveTopicRecord(topic_id=read.raw(ID_BYTES))
        case 12:
            return FeatureLevelRecord(name=read.string(), level=read.int16())
        case 15:
            broker_id = read.int32()
            read.int64()
            return ProducerIdsRecord(broker_id=broker_id, next_producer_id=read.int64())
        case 23:
            return BeginTransaction()
        case 24:
            return EndTransaction()
        case 25:
            return AbortTransaction()
    return None


def _decode_partition(read: Reader, version: int) -> PartitionRecord:
    partition, topic_id, replicas = read.int32(), read.raw(ID_BYTES), read.int32s()
    read.int32s(), read.int32s(), read.int32s()
    leader, leader_epoch, _ = read.int32(), read.int32(), read.int32()
    return PartitionRecord(
        topic_id=topic_id,
        partition=partition,
        replicas=replicas,
        leader=leader,
        leader_epoch=leader_epoch,
        directories=_read_ids(read) if version >= 1 else (),
    )


def _decode_change(read: Reader) -> PartitionChangeRecord:
    partition, topic_id = read.int32(), read.raw(ID_BYTES)
    tags = dict(read.tagged_fields())

    def numbers(tag: int) -> tuple[int, ...] | None:
        return tags[tag].int32s() if tag in tags else None

    return PartitionChangeRecord(
        topic_id=topic_id,
        partition=partition,
        leader=tags[_LEADER].int32() if _LEADER in tags else None,
        in_sync=numbers(_IN_SYNC),
        replicas=numbers(_REPLICAS),
        eligible_leaders=numbers(_ELIGIBLE),
        last_known_leaders=numbers(_LAST_KNOWN),
        directories=_read_ids(tags[_DIRECTORIES]) if _DIRECTORIES in tags else None,
    )


def _read_ids(read: Reader) -> tuple[bytes, ...]:
    return tuple(read.raw(ID_BYTES) for _ in range(read.count(ID_BYTES)))
