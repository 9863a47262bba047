"""The catalogue's records, typed, and their bytes: those of Kafka's own cluster metadata log (KIP-631), so that its tools read ours.

A value is: frame version (1), record type, record version (all unsigned varints), then the fields in flexible encoding. There are no keys.
Only bytes meet values here: what a record means is `catalogue.py`'s.
"""

from dataclasses import dataclass

from ottla.core.errors import PeerError
from ottla.core.wire import Reader, Writer

FRAME_VERSION = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRecord:
    """A topic came to be (type 2). `topic_id` is 16 bytes."""

    name: str
    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionRecord:
    """A partition came to be (type 3)."""

    topic_id: bytes
    partition: int
    replicas: tuple[int, ...]
    leader: int
    leader_epoch: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigRecord:
    """A setting was given a value, or lost it (`value` None) (type 4). `resource_type`: 2 topic, 4 broker."""

    resource_type: int
    resource_name: str
    name: str
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoveTopicRecord:
    """A topic is gone, with its partitions and settings (type 9)."""

    topic_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerIdsRecord:
    """Producer ids below `next_producer_id` have been handed to a broker (type 15)."""

    broker_id: int
    next_producer_id: int


CatalogueRecord = TopicRecord | PartitionRecord | ConfigRecord | RemoveTopicRecord | ProducerIdsRecord

_TYPES = {TopicRecord: 2, PartitionRecord: 3, ConfigRecord: 4, RemoveTopicRecord: 9, ProducerIdsRecord: 15}


def encode(record: CatalogueRecord) -> bytes:
    """The record's value, version 0 of its type."""
    out = Writer()
    out.uvarint(FRAME_VERSION).uvarint(_TYPES[type(record)]).uvarint(0)
    match record:
        case TopicRecord():
            out.compact_string(record.name).raw(record.topic_id)
        case PartitionRecord():
            out.int32(record.partition).raw(record.topic_id)
            for numbers in (record.replicas, record.replicas, (), ()):  # replicas, in sync, being removed, being added
                out.compact_int32s(numbers)
            out.int32(record.leader).int32(record.leader_epoch).int32(0)
        case ConfigRecord():
            out.int8(record.resource_type).compact_string(record.resource_name).compact_string(record.name)
            out.compact_nullable_string(record.value)
        case RemoveTopicRecord():
            out.raw(record.topic_id)
        case ProducerIdsRecord():
            out.int32(record.broker_id).int64(0).int64(record.next_producer_id)
    return out.uvarint(0).to_bytes()


def decode(value: bytes) -> CatalogueRecord | None:
    """The record of a value; None for a type that we do not keep (forward compatibility). Raises PeerError on bytes without meaning."""
    read = Reader(value)
    if read.uvarint() != FRAME_VERSION:
        raise PeerError("a catalogue record of an unknown frame version")
    kind = read.uvarint()
    read.uvarint()  # every version so far only adds fields behind those of version 0
    match kind:
        case 2:
            return TopicRecord(name=read.compact_string(), topic_id=read.raw(16))
        case 3:
            partition, topic_id, replicas = read.int32(), read.raw(16), read.compact_int32s()
            read.compact_int32s(), read.compact_int32s(), read.compact_int32s()
            return PartitionRecord(
                topic_id=topic_id, partition=partition, replicas=replicas, leader=read.int32(), leader_epoch=read.int32()
            )
        case 4:
            return ConfigRecord(
                resource_type=read.int8(),
                resource_name=read.compact_string(),
                name=read.compact_string(),
                value=read.compact_nullable_string(),
            )
        case 9:
            return RemoveTopicRecord(topic_id=read.raw(16))
        case 15:
            broker_id = read.int32()
            read.int64()
            return ProducerIdsRecord(broker_id=broker_id, next_producer_id=read.int64())
    return None
