"""Fetch, versions 12, 13 and 16, as bytes of our own, because the records inside must not be copied.

It knows the message's layout and nothing of brokers or retries. Version 13 and later name topics by their ids (KIP-516), 16 tells where a
leader that moved listens (KIP-951). The answer's record bytes are views into the frame. Sessions (KIP-227) are not used.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.consumer.admin.values import Node
from ottla.consumer.errors import error_code
from ottla.core.consuming.cluster_view import Leader
from ottla.core.consuming.fetch_values import NO_MOVE, FetchPolicy, PartitionAnswer, PartitionAsk
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import TopicPartition
from ottla.core.wire import Reader, Writer

API_KEY: Final = 1
BY_NAME, BY_ID, WITH_ENDPOINTS = 12, 13, 16

_CONSUMER: Final = -1
_NO_SESSION: Final = (0, -1)
_NO_EPOCH: Final = -1
_NO_BROKER: Final = -1
_ABORTED_BYTES_MIN: Final = 17
_TOPIC_BYTES_MIN: Final = 3
_PARTITION_BYTES_MIN: Final = 37
_NODE_BYTES_MIN: Final = 11
_ID_BYTES: Final = 16
_CURRENT_LEADER_TAG: Final = 1
_ENDPOINTS_TAG: Final = 0


class FetchAnswer(NamedTuple):
    """The parts of an answer, and where brokers listen that it names beside them."""

    partitions: tuple[PartitionAnswer, ...]
    nodes: tuple[Node, ...] = ()


def encode_fetch(asks: Sequence[PartitionAsk], policy: FetchPolicy, version: int) -> bytes:
    """The body of a request; each topic's `asks` stand together."""
    body = Writer()
    if version < 15:
        body.int32(_CONSUMER)
    body.int32(policy.max_wait_ms).int32(policy.min_bytes).int32(policy.max_bytes).int8(int(policy.is_read_committed))
    body.int32(_NO_SESSION[0]).int32(_NO_SESSION[1])
    by_topic: dict[str, list[PartitionAsk]] = {}
    for ask in asks:
        by_topic.setdefault(ask.partition.topic, []).append(ask)
    body.uvarint(len(by_topic) + 1)
    for topic, items in by_topic.items():
        if version >= BY_ID:
            body.raw(topic_id_bytes(items[0].topic_id))
        else:
            body.compact_string(topic)
        body.uvarint(len(items) + 1)
        for ask in items:
            body.int32(ask.partition.partition).int32(ask.leader_epoch).int64(ask.offset).int32(_NO_EPOCH).int64(-1)
            body.int32(policy.partition_max_bytes).uvarint(0)
        body.uvarint(0)
    return body.uvarint(1).compact_string("").uvarint(0).to_bytes()


def decode_fetch(answer: memoryview, asks: Sequence[PartitionAsk], version: int) -> FetchAnswer:
    """The answer to a request for `asks`. Raises PeerError when it is none."""
    reader = Reader(answer)
    reader.int32()  # throttle time: the broker has waited already
    top_level = error_code(reader.int16())
    reader.int32()
    if top_level is not ErrorCode.NONE:
        return FetchAnswer(tuple(PartitionAnswer(ask.partition, top_level) for ask in asks))
    names = {topic_id_bytes(ask.topic_id): ask.partition.topic for ask in asks} if version >= BY_ID else {}
    partitions: list[PartitionAnswer] = []
    for _ in range(reader.count(_TOPIC_BYTES_MIN, compact=True)):
        topic = _known(names, reader.raw(_ID_BYTES)) if version >= BY_ID else reader.compact_string()
        partitions.extend(_partition(reader, topic) for _ in range(reader.count(_PARTITION_BYTES_MIN, compact=True)))
        reader.tagged_fields()
    return FetchAnswer(tuple(partitions), _nodes(reader))


def topic_id_bytes(topic_id: str) -> bytes:
    """The 16 bytes of an id as Kafka prints it. Raises ValueError for what is none."""
    data = urlsafe_b64decode(topic_id + "==")
    if len(data) != _ID_BYTES:
        raise ValueError(f"{topic_id!r} is no topic id")
    return data


def _known(names: Mapping[bytes, str], topic_id: bytes) -> str:
    if topic_id not in names:
        raise PeerError("a Fetch answer about a topic that was not asked for")
    return names[topic_id]


def _partition(reader: Reader, topic: str) -> PartitionAnswer:
    partition = TopicPartition(topic, reader.int32())
    error = error_code(reader.int16())
    high_watermark, last_stable_offset, log_start_offset = reader.int64(), reader.int64(), reader.int64()
    aborted = []
    for _ in range(reader.count(_ABORTED_BYTES_MIN, compact=True)):
        aborted.append((reader.int64(), reader.int64()))
        reader.tagged_fields()
    preferred_replica, size = reader.int32(), max(reader.uvarint() - 1, 0)
    if preferred_replica != _NO_BROKER and size == 0 and error is ErrorCode.NONE:
        # Sent to a follower, without rack and without records (KIP-392): only this tells it from a partition that holds none.
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    start = reader.at
    reader.skip(size)
    records = memoryview(reader.buffer)[start : start + size]
    moved_to = _moved_to(reader)
    return PartitionAnswer(partition, error, high_watermark, last_stable_offset, log_start_offset, records, tuple(aborted), moved_to)


def _moved_to(reader: Reader) -> Leader:
    leader = NO_MOVE
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        start = reader.at
        reader.skip(size)
        if tag == _CURRENT_LEADER_TAG:
            field = Reader(reader.buffer, start)
            leader = Leader(field.int32(), field.int32())
    return leader


def _nodes(reader: Reader) -> tuple[Node, ...]:
    nodes: list[Node] = []
    for _ in range(reader.uvarint()):
        tag, size = reader.uvarint(), reader.uvarint()
        start = reader.at
        reader.skip(size)
        if tag == _ENDPOINTS_TAG:
            field = Reader(reader.buffer, start)
            for _ in range(field.count(_NODE_BYTES_MIN, compact=True)):
                nodes.append(Node(field.int32(), field.compact_string(), field.int32()))
                field.compact_nullable_string()  # rack
                field.tagged_fields()
    return tuple(nodes)
