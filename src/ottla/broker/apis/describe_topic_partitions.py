"""DescribeTopicPartitions (75), v0: topics with their partitions in pages, by name (KIP-966).

The next page begins at the response's cursor. A response has at most as many partitions as the request says, and 2,000 (Kafka's
`max.request.partition.size.limit`). No partition has eligible leaders beyond its replicas in sync: no replica can fall behind.
"""

import uuid
from collections.abc import Generator, Iterator, Sequence
from typing import Any, Final

from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler, Work
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.leadership import in_sync
from ottla.metadata.topics import Topic, topic_name_problem
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import OPERATIONS_NOT_ASKED_FOR, Operation, ResourceType

PARTITIONS_MAX: Final = 2_000
"""Partitions of one response."""
PIECE: Final = 4_096
"""So many names are sorted before other requests continue: about a millisecond."""
_ELEMENTS_MAX: Final = 20_000


def handle(request: Request, *, cluster_metadata: ClusterMetadata, scheduler: RequestScheduler) -> None:
    """Answer with one page, in pieces."""
    scheduler.run(request, _answer(cluster_metadata, request))


def _answer(cluster_metadata: ClusterMetadata, request: Request) -> Work:
    message = request.message
    cursor = message.cursor
    first = cursor.topic_name if cursor else ""
    if message.topics:
        names = sorted({topic.name for topic in message.topics if topic.name >= first})
        is_invalid = cursor is not None and first not in names[:1]
    else:
        names = yield from _first_names(list(cluster_metadata.topics), first)
        is_invalid = False
    if is_invalid or (cursor is not None and cursor.partition_index < 0):
        refused = (_error(topic.name, ErrorCode.INVALID_REQUEST, OPERATIONS_NOT_ASKED_FOR) for topic in message.topics)
        yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": refused, "next_cursor": None})
        return
    room = max(1, min(PARTITIONS_MAX, message.response_partition_limit))
    topics: list[dict[str, Any]] = []
    next_cursor = None
    for count, name in enumerate(names):
        if room == 0:
            next_cursor = {"topic_name": name, "partition_index": 0}
            break
        topic = cluster_metadata.topics.get(name)
        if not request.session.may(Operation.DESCRIBE, ResourceType.TOPIC, name, log_if_denied=bool(message.topics)):
            if message.topics:
                topics.append(_error(name, ErrorCode.TOPIC_AUTHORIZATION_FAILED, OPERATIONS_NOT_ASKED_FOR))
        elif topic is None:
            if message.topics:
                topics.append(_unknown(name, request.session.operations(ResourceType.TOPIC, name)))
        else:
            start = cursor.partition_index if cursor is not None and name == first else 0
            shown = range(start, len(topic.leaders))[:room]
            operations = request.session.operations(ResourceType.TOPIC, name)
            topics.append(_topic(topic, _partitions(cluster_metadata, topic, shown), operations))
            room -= len(shown)
            if start + len(shown) < len(topic.leaders):
                next_cursor = {"topic_name": name, "partition_index": start + len(shown)}
                break
        if count % PIECE == 0:
            yield
    yield from request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "topics": topics, "next_cursor": next_cursor})


def _first_names(names: Sequence[str], first: str) -> Generator[None, None, list[str]]:
    """The names from `first` on that one page can need, in their order; the generator's value."""
    found: list[str] = []
    for at in range(0, len(names), PIECE):
        found = sorted([*found, *(name for name in names[at : at + PIECE] if name >= first)])[: PARTITIONS_MAX + 1]
        yield
    return found


def _topic(topic: Topic, partitions: Iterator[dict[str, Any]], operations: int) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": uuid.UUID(bytes=topic.topic_id),
        "is_internal": topic.is_internal,
        "partitions": partitions,
        "topic_authorized_operations": operations,
    }


def _partitions(cluster_metadata: ClusterMetadata, topic: Topic, numbers: range) -> Iterator[dict[str, Any]]:
    live_ids = cluster_metadata.live_ids
    for number in numbers:
        home = topic.replica_assignments[number]
        yield {
            "error_code": ErrorCode.NONE,  # without a leader, too
            "partition_index": number,
            "leader_id": topic.leaders[number],
            "leader_epoch": topic.leader_epochs[number],
            "replica_nodes": home.replicas,
            "isr_nodes": in_sync(home, live_ids),
            "eligible_leader_replicas": (),
            "last_known_elr": (),
            "offline_replicas": tuple(each for each in home.replicas if each not in live_ids),
        }


def _unknown(name: str, operations: int) -> dict[str, Any]:
    is_valid = topic_name_problem(name) is None
    return _error(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if is_valid else ErrorCode.INVALID_TOPIC_EXCEPTION, operations)


def _error(name: str, error: ErrorCode, operations: int) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_id": None,
        "is_internal": False,
        "partitions": (),
        "topic_authorized_operations": operations,
    }


API = Api(
    key=ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    versions=range(1),
    handle=handle,
    elements_max=_ELEMENTS_MAX,
    access=(Access(Operation.DESCRIBE, ResourceType.TOPIC, "topics[].name"),),
)
