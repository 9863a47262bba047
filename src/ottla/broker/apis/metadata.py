"""Metadata (3), v0-13: brokers, and the topics asked for with their partitions' leaders; may create topics.

Version notes: v0 asks for all topics with an empty list, v1+ with null; v4+ says whether topics may be created (before: yes); v8-10 carry
the cluster's authorized operations; v10+ topic ids, v12+ topics asked for by id alone: before, a topic without a name or with an id makes
the whole request invalid.
"""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ottla.broker.api import NO_THROTTLE_MS, OPERATIONS_NOT_ASKED_FOR, Api, Request
from ottla.broker.request_scheduler import Work
from ottla.core.catalogue.catalogue import Topic, may_be_auto_created, topic_name_problem
from ottla.core.catalogue.leadership import in_sync
from ottla.core.catalogue.records import NO_LEADER
from ottla.core.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.broker.node import Node

# Bit n is set for ACL operation n: what the resource type allows, since there are no ACLs yet.
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))

_VERSIONS_WITHOUT_TOPIC_IDS_ALONE: Final = (10, 11)


def handle(node: "Node", request: Request) -> None:
    """Answers with the brokers that run, and the topics, in pieces: a topic may have thousands of partitions."""
    node.cluster.scheduler.run(request, _answer(node, request))


def _answer(node: "Node", request: Request) -> Work:
    message = request.message
    wants_all = message.topics is None or (request.version == 0 and not message.topics)
    with_operations = bool(getattr(message, "include_topic_authorized_operations", False))
    brokers = [{**each.endpoint._asdict(), "rack": None} for each in node.cluster.nodes.values() if each.is_alive]
    error, cluster_id, controller_id = ErrorCode.NONE, node.cluster.cluster_id or None, node.cluster.controller_id
    topics: Iterable[dict[str, Any] | None]
    if wants_all:
        topics = (_topic(node, topic, with_operations) for topic in list(node.cluster.catalogue.topics.values()))
    elif _is_invalid(request.version, message.topics):
        error, cluster_id, controller_id, brokers = ErrorCode.INVALID_REQUEST, None, -1, []
        topics = [_error(asked.name or "", error, getattr(asked, "topic_id", None)) for asked in message.topics]
    else:
        may_create = bool(getattr(message, "allow_auto_topic_creation", True)) and node.cluster.config.flag("auto.create.topics.enable")
        topics = _asked(node, message.topics, may_create, with_operations)
    cluster_operations = bool(getattr(message, "include_cluster_authorized_operations", False))
    yield from request.reply_in_pieces(
        {
            "throttle_time": NO_THROTTLE_MS,
            "brokers": brokers,
            "cluster_id": cluster_id,
            "controller_id": controller_id,
            "topics": topics,
            "cluster_authorized_operations": CLUSTER_OPERATIONS if cluster_operations else OPERATIONS_NOT_ASKED_FOR,
            "error_code": error,
        }
    )


def _is_invalid(version: int, topics: Sequence[Any]) -> bool:
    """Whether a topic is not named as the version asks for: then nothing of the request is answered, as in Kafka."""
    if version in _VERSIONS_WITHOUT_TOPIC_IDS_ALONE:
        return any(asked.name is None or asked.topic_id for asked in topics)
    return any(asked.name is None and not asked.topic_id for asked in topics)


def _asked(node: "Node", topics: Sequence[Any], may_create: bool, with_operations: bool) -> Iterator[dict[str, Any] | None]:
    """Each topic once, however often it is asked for."""
    catalogue = node.cluster.catalogue
    ids = dict.fromkeys(asked.topic_id for asked in topics if asked.name is None)
    names = dict.fromkeys(asked.name for asked in topics if asked.name is not None)
    for topic_id in ids:
        by_id = catalogue.topics_by_id.get(topic_id.bytes)
        yield _topic(node, by_id, with_operations) if by_id else _error(None, ErrorCode.UNKNOWN_TOPIC_ID, topic_id)
    refused: Mapping[str, ErrorCode] = {}
    if may_create:
        missing = [name for name in names if name not in catalogue.topics and may_be_auto_created(name)]
        refused = (yield from node.cluster.topics.ensure_in_pieces(missing)) if missing else {}
    for name in names:
        topic = catalogue.topics.get(name)
        if topic is not None:
            yield _topic(node, topic, with_operations)
        elif name in refused:
            yield _error(name, refused[name])
        else:
            invalid = topic_name_problem(name) is not None
            yield _error(name, ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)


def _topic(node: "Node", topic: Topic, with_operations: bool) -> dict[str, Any]:
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": uuid.UUID(bytes=topic.topic_id),
        "is_internal": topic.internal,
        "partitions": _partitions(node, topic),
        "topic_authorized_operations": TOPIC_OPERATIONS if with_operations else OPERATIONS_NOT_ASKED_FOR,
    }


def _partitions(node: "Node", topic: Topic) -> Iterator[dict[str, Any]]:
    live_ids = node.cluster.catalogue.live_ids
    for number, (leader, leader_epoch, home) in enumerate(zip(topic.leaders, topic.leader_epochs, topic.homes)):
        yield {
            "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
            "partition_index": number,
            "leader_id": leader,
            "leader_epoch": leader_epoch,
            "replica_nodes": home.replicas,
            "isr_nodes": in_sync(home, live_ids),
            "offline_replicas": tuple(each for each in home.replicas if each not in live_ids),
        }


def _error(name: str | None, error: ErrorCode, topic_id: uuid.UUID | None = None) -> dict[str, Any]:
    return {
        "error_code": error,
        "name": name,
        "topic_id": topic_id,
        "is_internal": False,
        "partitions": [],
        "topic_authorized_operations": OPERATIONS_NOT_ASKED_FOR,
    }


API = Api(key=3, versions=range(14), handle=handle)
