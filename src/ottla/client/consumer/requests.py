"""The engine's requests as Kafka's messages, in the highest version that both sides know, and their responses as the engine's values.

It knows the messages and their versions; `links` choose connections, the engine decides.
"""

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import partial
from typing import Any, Final, NamedTuple
from uuid import UUID

from ottla.client.brokers import WITH_IDS, metadata_request, read_metadata, topic_id_text
from ottla.client.engine.values import (
    CoordinatorResponse,
    Endpoint,
    EpochEnd,
    Fetch,
    FetchedOffset,
    FetchResponse,
    ListedOffset,
    ListOffsets,
    Metadata,
    MetadataResponse,
    OffsetAndMetadata,
    OffsetCommit,
    OffsetFetch,
    OffsetFetchResponse,
    OffsetForLeaderEpoch,
    Request,
)
from ottla.client.errors import error_code
from ottla.client.fetch.requests import decode_fetch, encode_fetch, fetch_version, topic_id_bytes
from ottla.client.membership.values import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    FindCoordinator,
    Heartbeat,
    JoinedMember,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    SyncGroup,
    SyncResponse,
)
from ottla.client.network.connection import BrokerConnection
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import decoder, encode, fitter, is_flexible, request_class, response_class

_GROUP_KEY: Final = 0
_METADATA_WITHOUT_IDS: Final = 9


class Encoded(NamedTuple):
    """A request as bytes, and the function that reads the body of its response (raising PeerError)."""

    api_key: int
    version: int
    body: bytes
    is_flexible: bool
    read: Callable[[memoryview], Any]


class _Api(NamedTuple):
    """How one request is written and its response read; versions from `lowest` to `highest` are used."""

    key: ApiKey
    lowest: int
    highest: int
    write: Callable[[Any], Mapping[str, Any]]
    read: Callable[[Any], Any]


def encode_request(request: Request, connection: BrokerConnection) -> Encoded:
    """A request in a version that the broker of `connection` supports. Raises UnsupportedBrokerError."""
    if isinstance(request, Fetch):
        return _fetch(request, connection)
    if isinstance(request, Metadata):
        version = connection.version(ApiKey.METADATA, _METADATA_WITHOUT_IDS, WITH_IDS)
        message, response = metadata_request(
            request.topics, with_ids=version == WITH_IDS, creates=request.creates, topic_ids=request.topic_ids
        )
        body, is_flex = encode(message), bool(message.__flexible__)
        return Encoded(ApiKey.METADATA, int(message.__version__), body, is_flex, lambda data: _metadata(decoder(response)(data, 0)))
    api = _COMMIT_OF_EPOCH if isinstance(request, OffsetCommit) and request.has_epoch else _APIS[type(request)]
    version = connection.version(api.key, api.lowest, api.highest)
    body = encode(fitter(request_class(api.key, version), True)(api.write(request)))
    read = partial(_read, api, version)
    return Encoded(api.key, version, body, is_flexible(api.key, version), read)


def _read(api: _Api, version: int, data: memoryview) -> Any:
    return api.read(decoder(response_class(api.key, version))(data, 0))


def _fetch(request: Fetch, connection: BrokerConnection) -> Encoded:
    version = fetch_version(connection, (*request.fetches, *request.session.forgotten))
    body = encode_fetch(request.session, request.policy, version)
    return Encoded(ApiKey.FETCH, version, body, True, lambda data: _fetched(data, request, version))


def _fetched(data: memoryview, request: Fetch, version: int) -> FetchResponse:
    response = decode_fetch(data, request.fetches, version)
    endpoints = {each.broker_id: Endpoint(each.host, each.port) for each in response.endpoints}
    return FetchResponse(response.partitions, endpoints, response.error, response.session_id)


def _metadata(answer: Any) -> MetadataResponse:
    found = read_metadata(answer)
    return MetadataResponse({key: Endpoint(each.host, each.port) for key, each in found.endpoints.items()}, found.topics)


def _write_find(request: FindCoordinator) -> Mapping[str, Any]:
    return {"key_type": _GROUP_KEY, "coordinator_keys": (request.group_id,)}


def _read_find(answer: Any) -> CoordinatorResponse:
    for found in answer.coordinators:
        return CoordinatorResponse(error_code(found.error_code), int(found.node_id), Endpoint(found.host, int(found.port)))
    return CoordinatorResponse(ErrorCode.COORDINATOR_NOT_AVAILABLE)


def _write_join(request: JoinGroup) -> Mapping[str, Any]:
    return {
        "group_id": request.group_id,
        "session_timeout": request.session_timeout_ms,
        "rebalance_timeout": request.rebalance_timeout_ms,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
        "protocol_type": request.protocol_type,
        "protocols": [{"name": name, "metadata": metadata} for name, metadata in request.protocols],
        "reason": request.reason,
    }


def _read_join(answer: Any) -> JoinResponse:
    return JoinResponse(
        error=error_code(answer.error_code),
        generation=int(answer.generation_id),
        protocol_name=answer.protocol_name,
        leader=answer.leader,
        member_id=answer.member_id,
        skip_assignment=getattr(answer, "skip_assignment", False),
        members=tuple(JoinedMember(each.member_id, each.group_instance_id, bytes(each.metadata)) for each in answer.members),
    )


def _write_sync(request: SyncGroup) -> Mapping[str, Any]:
    return {
        "group_id": request.group_id,
        "generation_id": request.generation,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
        "protocol_type": request.protocol_type,
        "protocol_name": request.protocol_name,
        "assignments": [{"member_id": member_id, "assignment": assignment} for member_id, assignment in request.assignments],
    }


def _read_sync(answer: Any) -> SyncResponse:
    return SyncResponse(error=error_code(answer.error_code), assignment=bytes(answer.assignment))


def _write_heartbeat(request: Heartbeat) -> Mapping[str, Any]:
    return {
        "group_id": request.group_id,
        "generation_id": request.generation,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
    }


def _write_leave(request: LeaveGroup) -> Mapping[str, Any]:
    member = {"member_id": request.member_id, "group_instance_id": request.instance_id, "reason": request.reason}
    return {"group_id": request.group_id, "members": [member]}


def _read_error(answer: Any) -> ErrorCode:
    return error_code(answer.error_code)


def _write_consumer_heartbeat(request: ConsumerGroupHeartbeat) -> Mapping[str, Any]:
    owned = None
    if request.owned is not None:
        owned = [{"topic_id": UUID(bytes=topic_id_bytes(each)), "partitions": numbers} for each, numbers in request.owned.items()]
    return {
        "group_id": request.group_id,
        "member_id": request.member_id,
        "member_epoch": request.member_epoch,
        "instance_id": request.instance_id,
        "rack_id": request.rack,
        "rebalance_timeout": request.rebalance_timeout_ms,
        "subscribed_topic_names": request.topics,
        "subscribed_topic_regex": request.regex,
        "server_assignor": request.assignor,
        "topic_partitions": owned,
    }


def _read_consumer_heartbeat(answer: Any) -> ConsumerGroupHeartbeatResponse:
    assigned = None
    if answer.assignment is not None:
        assigned = {topic_id_text(each.topic_id): tuple(map(int, each.partitions)) for each in answer.assignment.topic_partitions}
    return ConsumerGroupHeartbeatResponse(
        error=error_code(answer.error_code),
        message=answer.error_message,
        member_epoch=int(answer.member_epoch),
        heartbeat_interval_ms=answer.heartbeat_interval // timedelta(milliseconds=1),
        assignment=assigned,
    )


def _write_commit(request: OffsetCommit) -> Mapping[str, Any]:
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, partition), offset in request.offsets.items():
        item = {
            "partition_index": partition,
            "committed_offset": offset.offset,
            "committed_leader_epoch": offset.leader_epoch,
            "committed_metadata": offset.metadata,
        }
        topics.setdefault(topic, []).append(item)
    return {
        "group_id": request.group_id,
        "generation_id_or_member_epoch": request.generation,
        "member_id": request.member_id,
        "group_instance_id": request.instance_id,
        "topics": [{"name": name, "partitions": items} for name, items in topics.items()],
    }


def _read_commit(answer: Any) -> Mapping[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, int(item.partition_index)): error_code(item.error_code)
        for topic in answer.topics
        for item in topic.partitions
    }


def _by_topic(partitions: tuple[TopicPartition, ...]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
    return topics


def _write_offset_fetch(request: OffsetFetch) -> Mapping[str, Any]:
    topics = [{"name": name, "partition_indexes": numbers} for name, numbers in _by_topic(request.partitions).items()]
    group = {"group_id": request.group_id, "member_id": None, "member_epoch": -1, "topics": topics}
    return {"groups": [group], "require_stable": True}


def _read_offset_fetch(answer: Any) -> OffsetFetchResponse:
    for group in answer.groups:
        offsets = {
            TopicPartition(topic.name, int(item.partition_index)): FetchedOffset(
                error_code(item.error_code),
                OffsetAndMetadata(int(item.committed_offset), int(item.committed_leader_epoch), item.metadata or ""),
            )
            for topic in group.topics
            for item in topic.partitions
        }
        return OffsetFetchResponse(error_code(group.error_code), offsets)
    return OffsetFetchResponse(ErrorCode.UNKNOWN_SERVER_ERROR, {})


def _write_list(request: ListOffsets) -> Mapping[str, Any]:
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, partition), timestamp in request.timestamps.items():
        item = {"partition_index": partition, "current_leader_epoch": -1, "timestamp": timestamp}
        topics.setdefault(topic, []).append(item)
    return {
        "replica_id": -1,
        "isolation_level": int(request.is_read_committed),
        "topics": [{"name": name, "partitions": items} for name, items in topics.items()],
    }


def _read_list(answer: Any) -> Mapping[TopicPartition, ListedOffset]:
    return {
        TopicPartition(topic.name, int(item.partition_index)): ListedOffset(
            error_code(item.error_code), int(item.offset), int(item.leader_epoch)
        )
        for topic in answer.topics
        for item in topic.partitions
    }


def _write_epochs(request: OffsetForLeaderEpoch) -> Mapping[str, Any]:
    topics: dict[str, list[Mapping[str, Any]]] = {}
    for (topic, partition), wanted in request.epochs.items():
        item = {"partition": partition, "current_leader_epoch": wanted.current_leader_epoch, "leader_epoch": wanted.leader_epoch}
        topics.setdefault(topic, []).append(item)
    return {"replica_id": -1, "topics": [{"topic": name, "partitions": items} for name, items in topics.items()]}


def _read_epochs(answer: Any) -> Mapping[TopicPartition, EpochEnd]:
    return {
        TopicPartition(topic.topic, int(item.partition)): EpochEnd(
            error_code(item.error_code), int(item.leader_epoch), int(item.end_offset)
        )
        for topic in answer.topics
        for item in topic.partitions
    }


_COMMIT_OF_EPOCH: Final = _Api(ApiKey.OFFSET_COMMIT, 9, 9, _write_commit, _read_commit)
_APIS: Final[Mapping[type, _Api]] = {
    ConsumerGroupHeartbeat: _Api(ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, 1, _write_consumer_heartbeat, _read_consumer_heartbeat),
    FindCoordinator: _Api(ApiKey.FIND_COORDINATOR, 4, 4, _write_find, _read_find),
    JoinGroup: _Api(ApiKey.JOIN_GROUP, 5, 9, _write_join, _read_join),
    SyncGroup: _Api(ApiKey.SYNC_GROUP, 3, 5, _write_sync, _read_sync),
    Heartbeat: _Api(ApiKey.HEARTBEAT, 3, 4, _write_heartbeat, _read_error),
    LeaveGroup: _Api(ApiKey.LEAVE_GROUP, 3, 5, _write_leave, _read_error),
    OffsetCommit: _Api(ApiKey.OFFSET_COMMIT, 7, 8, _write_commit, _read_commit),
    OffsetFetch: _Api(ApiKey.OFFSET_FETCH, 8, 8, _write_offset_fetch, _read_offset_fetch),
    ListOffsets: _Api(ApiKey.LIST_OFFSETS, 6, 6, _write_list, _read_list),
    OffsetForLeaderEpoch: _Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 3, 4, _write_epochs, _read_epochs),
}
