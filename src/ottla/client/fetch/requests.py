"""Fetch requests and responses, versions 12, 13 and 16, as bytes, without kio: it would copy the records.

It knows the messages and nothing of brokers or retries. Version 13 and later name topics by their ids (KIP-516), 16 has the
endpoints of new leaders (KIP-951). The records of a response are views into the frame.
"""

from base64 import urlsafe_b64decode
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

from ottla.client.addresses import BrokerEndpoint
from ottla.client.errors import error_code
from ottla.client.fetch.fetch_values import NO_CURRENT_LEADER, NO_SESSION, FetchPolicy, PartitionFetch, PartitionResponse, SessionFields
from ottla.client.fetch.leaders import LeaderAndEpoch
from ottla.client.network.connection import BrokerConnection
from ottla.protocol.errors import ErrorCode, PeerError
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.primitives import Reader, Writer

BY_NAME, BY_ID, WITH_ENDPOINTS = 12, 13, 16

_CONSUMER: Final = -1
_NO_EPOCH: Final = -1
_ABORTED_BYTES_MIN: Final = 17
_TOPIC_BYTES_MIN: Final = 3
_PARTITION_BYTES_MIN: Final = 37
_ENDPOINT_BYTES_MIN: Final = 11
_ID_BYTES: Final = 16
_CURRENT_LEADER_TAG: Final = 1
_ENDPOINTS_TAG: Final = 0


class FetchResponse(NamedTuple):
    """A response by partitions, in its order; the endpoints of brokers that it names; its session, NO_SESSION for none.

    `error` is that of the whole response; the partitions have it, too.
    """

    partitions: tuple[PartitionResponse, ...]
    endpoints: tuple[BrokerEndpoint, ...] = ()
    error: ErrorCode = ErrorCode.NONE
    session_id: int = NO_SESSION


def fetch_version(connection: BrokerConnection, fetches: Iterable[PartitionFetch]) -> int:
    """The version for a request about these partitions: where a topic id is not known, the one that names topics."""
    if not all(fetch.topic_id for fetch in fetches):
        return BY_NAME
    return next((version for version in (WITH_ENDPOINTS, BY_ID) if connection.speaks(ApiKey.FETCH, version)), BY_NAME)


def encode_fetch(session: SessionFields, policy: FetchPolicy, version: int) -> bytes:
    """The body of a request for the partitions that `session` sends, which are grouped by topic."""
    body = Writer(flexible=True)
    if version < 15:
        body.int32(_CONSUMER)
    body.int32(policy.max_wait_ms).int32(policy.min_bytes).int32(policy.max_bytes).int8(int(policy.is_read_committed))
    body.int32(session.session_id).int32(session.epoch)
    topics = _by_topic(session.sent, version)
    body.array(len(topics))
    for topic, items in topics.items():
        _topic(body, topic, version).array(len(items))
        for fetch in items:
            body.int32(fetch.partition.partition).int32(fetch.leader_epoch).int64(fetch.offset).int32(_NO_EPOCH).int64(-1)
            body.int32(policy.partition_max_bytes).end()
        body.end()
    forgotten = _by_topic(_forgotten(session, version), version)
    body.array(len(forgotten))
    for topic, items in forgotten.items():
        _topic(body, topic, version).array(len(items))
        for fetch in items:
            body.int32(fetch.partition.partition)
        body.end()
    return body.string(policy.rack).end().to_bytes()


def _by_topic(fetches: Sequence[PartitionFetch], version: int) -> dict[str, list[PartitionFetch]]:
    """The partitions of a request by the topic's name, or by its id."""
    by_topic: dict[str, list[PartitionFetch]] = {}
    for fetch in fetches:
        by_topic.setdefault(fetch.topic_id if version >= BY_ID else fetch.partition.topic, []).append(fetch)
    return by_topic


def _topic(body: Writer, topic: str, version: int) -> Writer:
    return body.raw(topic_id_bytes(topic)) if version >= BY_ID else body.string(topic)


def _forgotten(session: SessionFields, version: int) -> list[PartitionFetch]:
    """A partition of a topic that was re-created is forgotten by its old id; by name it would be the new one, too."""
    sent = () if version >= BY_ID else {fetch.partition for fetch in session.sent}
    return [fetch for fetch in session.forgotten if fetch.partition not in sent]


def decode_fetch(response: memoryview, fetches: Sequence[PartitionFetch], version: int) -> FetchResponse:
    """The response to a request for `fetches`. Raises PeerError for a malformed one."""
    reader = Reader(response, flexible=True)
    reader.int32()  # throttle time: the broker has waited already
    top_level = error_code(reader.int16())
    session_id = reader.int32()
    if top_level is not ErrorCode.NONE:
        return FetchResponse(tuple(PartitionResponse(fetch.partition, top_level) for fetch in fetches), (), top_level, session_id)
    names = {topic_id_bytes(fetch.topic_id): fetch.partition.topic for fetch in fetches} if version >= BY_ID else {}
    partitions: list[PartitionResponse] = []
    for _ in range(reader.count(_TOPIC_BYTES_MIN)):
        topic = _topic_name(names, reader.raw(_ID_BYTES)) if version >= BY_ID else reader.string()
        partitions.extend(_partition(reader, topic) for _ in range(reader.count(_PARTITION_BYTES_MIN)))
        reader.skip_tagged_fields()
    return FetchResponse(tuple(partitions), _endpoints(reader), session_id=session_id)


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
    start = reader.at
    reader.skip(size)
    records = memoryview(reader.buffer)[start : start + size]
    current_leader = _current_leader(reader)
    return PartitionResponse(
        partition, error, high_watermark, last_stable_offset, log_start_offset, records, tuple(aborted), current_leader, preferred_replica
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
