"""Metadata (3), v0-13: brokers, and the topics asked for with their partitions' leaders; may create topics.

Version notes: v0 asks for all topics with an empty list, v1+ with null; v4+ says whether topics may be created (before: yes); v8-10 carry
the cluster's authorized operations; v10+ topic ids, v12+ topics asked for by id alone.
"""

import uuid
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, OPERATIONS_NOT_ASKED_FOR, Api, Request
from ottla.core.catalogue.catalogue import Topic, may_be_auto_created, topic_name_problem
from ottla.core.catalogue.leadership import in_sync
from ottla.core.catalogue.records import NO_LEADER
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node

# Bit n is set for ACL operation n: what the resource type allows, since there are no ACLs yet.
TOPIC_OPERATIONS = sum(1 << code for code in (3, 4, 5, 6, 7, 8, 10, 11))
CLUSTER_OPERATIONS = sum(1 << code for code in (5, 7, 8, 9, 10, 11, 12))


def handle(node: "Node", request: Request) -> None:
    """Answers with the brokers that run, and the topics."""
    message = request.message
    wants_all = message.topics is None or (request.version == 0 and not message.topics)
    with_operations = bool(getattr(message, "include_topic_authorized_operations", False))
    if wants_all:
        topics = [_topic(node, topic, with_operations) for topic in node.cluster.catalogue.topics.values()]
    else:
        may_create = bool(getattr(message, "allow_auto_topic_creation", True)) and node.cluster.config.flag("auto.create.topics.enable")
        topics = [_asked(node, asked, may_create, with_operations) for asked in message.topics]
    cluster_operations = bool(getattr(message, "include_cluster_authorized_operations", False))
    request.reply(
        {
            "throttle_time": NO_THROTTLE_MS,
            "brokers": [{**each.endpoint._asdict(), "rack": None} for each in node.cluster.nodes.values() if each.is_alive],
            "cluster_id": node.cluster.cluster_id,
            "controller_id": node.cluster.controller_id,
            "topics": topics,
            "cluster_authorized_operations": CLUSTER_OPERATIONS if cluster_operations else OPERATIONS_NOT_ASKED_FOR,
            "error_code": ErrorCode.NONE,
        }
    )


def _asked(node: "Node", asked: Any, may_create: bool, with_operations: bool) -> dict[str, Any]:
    if asked.name is None:
        by_id = node.cluster.catalogue.topics_by_id.get(asked.topic_id.bytes) if asked.topic_id else None
        return _topic(node, by_id, with_operations) if by_id else _error(None, ErrorCode.UNKNOWN_TOPIC_ID, asked.topic_id)
    topic = node.cluster.catalogue.topics.get(asked.name)
    if topic is None and may_create and may_be_auto_created(asked.name):
        return _created(node, asked.name, with_operations)
    if topic is None:
        invalid = topic_name_problem(asked.name) is not None
        return _error(asked.name, ErrorCode.INVALID_TOPIC_EXCEPTION if invalid else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
    return _topic(node, topic, with_operations)


def _created(node: "Node", name: str, with_operations: bool) -> dict[str, Any]:
    try:
        created = node.cluster.topics.ensure(name)
    except StorageError as error:
        return _error(name, error.code)
    return _error(name, created.error) if isinstance(created, Refused) else _topic(node, created, with_operations)


def _topic(node: "Node", topic: Topic, with_operations: bool) -> dict[str, Any]:
    live_ids = node.cluster.catalogue.live_ids
    return {
        "error_code": ErrorCode.NONE,
        "name": topic.name,
        "topic_id": uuid.UUID(bytes=topic.topic_id),
        "is_internal": topic.internal,
        "partitions": [
            {
                "error_code": ErrorCode.LEADER_NOT_AVAILABLE if leader == NO_LEADER else ErrorCode.NONE,
                "partition_index": number,
                "leader_id": leader,
                "leader_epoch": topic.leader_epochs[number],
                "replica_nodes": topic.homes[number].replicas,
                "isr_nodes": in_sync(topic.homes[number], live_ids),
                "offline_replicas": tuple(each for each in topic.homes[number].replicas if each not in live_ids),
            }
            for number, leader in enumerate(topic.leaders)
        ],
        "topic_authorized_operations": TOPIC_OPERATIONS if with_operations else OPERATIONS_NOT_ASKED_FOR,
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
