"""Fetch requests and responses, versions 12, 13 and 16, as bytes, without kio: it would copy the records.

It knows the layout of the messages and nothing of brokers or retries. Version 13 and later name topics by their ids (KIP-516), 16 has the
endpoints of new leaders (KIP-951). The records of a response are views into the frame. Fetch sessions (KIP-227) are not used.
"""

from base64 import urlsafe_b64decode
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.addresses import BrokerEndpoint
from ottla.client.errors import error_code
from ottla.core.client.fetch_values import NO_CURRENT_LEADER, FetchPolicy, PartitionFetch, PartitionResponse
from ottla.core.client.leaders import LeaderAndEpoch
from ottla.core.errors import ErrorCode, PeerError
from ottla.core.model import TopicPartition
from ottla.core.wire.reader import Reader
from ottla.core.wire.writer import Writer

BY_NAME, BY_ID, WITH_ENDPOINTS = 12, 13, 16

_CONSUMER: Final = -1
_NO_SESSION: Final = (0, -1)
_NO_EPOCH: Final = -1
_NO_BROKER: Final = -1
_ABORTED_BYTES_MIN: Final = 17
_TOPIC_BYTES_MIN: Final = 3
_PARTITION_BYTES_MIN: Final = 37
_ENDPOINT_BYTES_MIN: Final = 11
_ID_BYTES: Final = 16
_CURRENT_LEADER_TAG: Final = 1
_ENDPOINTS_TAG: Final = 0


class FetchResponse(NamedTuple):
    """A response by partitions, and the endpoints of brokers that it names."""

    partitions: tuple[PartitionResponse, ...]
    endpoints: tuple[BrokerEndpoint, ...] = ()


def encode_fetch(fetches: Sequence[PartitionFetch], policy: FetchPolicy, version: int) -> bytes:
    """The body of a request for `fetches`, which are grouped by topic."""
    body = Writer(flexible=True)
    if version < 15:
        body.int32(_CONSUMER)
    body.int32(policy.max_wait_ms).int32(policy.min_bytes).int32(policy.max_bytes).int8(int(policy.is_read_committed))
    body.int32(_NO_SESSION[0]).int32(_NO_SESSION[1])
    by_topic: dict[str, list[PartitionFetch]] = {}
    for fetch in fetches:
        by_topic.setdefault(fetch.partition.topic, []).append(fetch)
    body.array(len(by_topic))
    for topic, items in by_topic.items():
        if version >= BY_ID:
            body.raw(topic_id_bytes(items[0].topic_id))
        else:
            body.string(topic)
        body.array(len(items))
        for fetch in items:
            body.int32(fetch.partition.partition).int32(fetch.leader_epoch).int64(fetch.offset).int32(_NO_EPOCH).int64(-1)
            body.int32(policy.partition_max_bytes).end()
        body.end()
    return body.array(0).string("").end().to_bytes()


def decode_fetch(response: memoryview, fetches: Sequence[PartitionFetch], version: int) -> FetchResponse:
    """The response to a request for `fetches`. Raises PeerError for a malformed one."""
    reader = Reader(response, flexible=True)
    reader.int32()  # throttle time: the broker has waited already
    top_level = error_code(reader.int16())
    reader.int32()
    if top_level is not ErrorCode.NONE:
        return FetchResponse(tuple(PartitionResponse(fetch.partition, top_level) for fetch in fetches))
    names = {topic_id_bytes(fetch.topic_id): fetch.partition.topic for fetch in fetches} if version >= BY_ID else {}
    partitions: list[PartitionResponse] = []
    for _ in range(reader.count(_TOPIC_BYTES_MIN)):
        topic = _topic_name(names, reader.raw(_ID_BYTES)) if version >= BY_ID else reader.string()
        partitions.extend(_partition(reader, topic) for _ in range(reader.count(_PARTITION_BYTES_MIN)))
        reader.skip_tagged_fields()
    return FetchResponse(tuple(partitions), _endpoints(reader))


def topic_id_bytes(topic_id: str) -> bytes:
    """The 16 bytes of an id as Kafka prints it. Raises ValueError for a malformed id."""
    data = urlsafe_b64decode(topic_id + "==")
    if len(data) != _ID_BYTES:
        raise ValueError(f"{topic_id!r} is no topic id")
    return data


def _topic_name(names: Mapping[bytes, str], topic_id: bytes) -> str:
    if topic_id not in names:
        raise PeerError("a Fetch response with a topic that was not requested")
    return names[topic_id]


def _partition(reader: Reader, topic: str) -> PartitionResponse:
    partition = TopicPartition(topic, reader.int32())
    error = error_code(reader.int16())
    high_watermark, last_stable_offset, log_start_offset = reader.int64(), reader.int64(), reader.int64()
    aborted = []
    for _ in range(reader.count(_ABORTED_BYTES_MIN)):
        aborted.append((reader.int64(), reader.int64()))
        reader.skip_tagged_fields()
    preferred_replica, size = reader.int32(), max(reader.length(), 0)
    if preferred_replica != _NO_BROKER and size == 0 and error is ErrorCode.NONE:
        # Sent to a follower, without rack and without records (KIP-392): only this distinguishes it from an empty partition.
        error = ErrorCode.REPLICA_NOT_AVAILABLE
    start = reader.at
    reader.skip(size)
    records = memoryview(reader.buffer)[start : start + size]
    current_leader = _current_leader(reader)
    return PartitionResponse(
        partition, error, high_watermark, last_stable_offset, log_start_offset, records, tuple(aborted), current_leader
    )


def _current_leader(reader: Reader) -> LeaderAndEpoch:
    leader = NO_CURRENT_LEADER
    for tag, field in reader.tagged_fields():
        if tag == _CURRENT_LEADER_TAG:
            leader = LeaderAndEpoch(field.int32(), field.int32())
    return leader


def _endpoints(reader: Reader) -> tuple[BrokerEndpoint, ...]:
    endpoints: list[BrokerEndpoint] = []
    for tag, field in reader.tagged_fields():
        if tag == _ENDPOINTS_TAG:
            for _ in range(field.count(_ENDPOINT_BYTES_MIN)):
                endpoints.append(BrokerEndpoint(field.int32(), field.string(), field.int32()))
                field.nullable_string()  # rack
                field.skip_tagged_fields()
    return tuple(endpoints)
