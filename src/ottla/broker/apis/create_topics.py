"""CreateTopics (19), v2-7: makes topics, each with its own result.

Version notes: v5+ answers with the partition count, the replicas and the settings in force (KIP-525); v7+ with the topic's id.
"""

import uuid
from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.catalogue.catalogue import NewTopic, Topic
from ottla.core.catalogue.resource_configs import SUGGESTIONS_MAX, TOPIC_RESOURCE, Refused, suggestion
from ottla.core.config import TOPIC_SETTINGS
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Answers with one result a topic; a name that is given twice is refused, once."""
    times = Counter(topic.name for topic in request.message.topics)
    results = [_refused(name, ErrorCode.INVALID_REQUEST, "Duplicate topic name.") for name, count in times.items() if count > 1]
    results += [_create(node, asked, request.message) for asked in request.message.topics if times[asked.name] == 1]
    request.reply({"throttle_time": NO_THROTTLE_MS, "topics": results})


def _create(node: "Node", asked: Any, message: Any) -> dict[str, Any]:
    new = NewTopic(
        name=asked.name,
        partitions=asked.num_partitions,
        replication_factor=asked.replication_factor,
        assignment={part.partition_index: part.broker_ids for part in asked.assignments},
        configs={config.name: config.value for config in asked.configs},
    )
    try:
        made = node.cluster.topics.create(new, validate_only=message.validate_only)
    except StorageError as error:
        return _refused(asked.name, error.code, str(error))
    if isinstance(made, Refused):
        hint = suggestion(TOPIC_RESOURCE, made) if len(message.topics) <= SUGGESTIONS_MAX else ""
        return _refused(asked.name, made.error, made.message + hint)
    return _made(node, made)


def _made(node: "Node", made: Topic) -> dict[str, Any]:
    configs = []
    for name in TOPIC_SETTINGS:
        value, source = node.cluster.catalogue.value_in_force(made, name)
        configs.append({"name": name, "value": value, "read_only": False, "config_source": source, "is_sensitive": False})
    return {
        "name": made.name,
        "topic_id": uuid.UUID(bytes=made.topic_id),
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "num_partitions": len(made.leaders),
        "replication_factor": len(made.homes[0].replicas),
        "configs": configs,
    }


def _refused(name: str, error: ErrorCode, message: str) -> dict[str, Any]:
    return {
        "name": name,
        "topic_id": None,
        "error_code": error,
        "error_message": message,
        "num_partitions": -1,
        "replication_factor": -1,
        "configs": [],
    }


API = Api(key=19, versions=range(2, 8), handle=handle)
