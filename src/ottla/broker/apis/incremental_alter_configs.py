"""IncrementalAlterConfigs (44), v0-1: sets, deletes, appends to and subtracts from settings of topics and of this broker (KIP-339)."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from ottla.broker.cluster.node import Node
from ottla.broker.cluster.topics import Topics
from ottla.broker.network.request_scheduler import RequestScheduler
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.core.errors import ErrorCode, StorageError
from ottla.core.metadata.config_changes import SUGGESTIONS_MAX, suggestion
from ottla.core.metadata.resource_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.core.wire.api_keys import ApiKey

_OPERATIONS = range(4)
DELETE = 1


def handle(request: Request, *, cluster_topics: Topics, node: Node, scheduler: RequestScheduler) -> None:
    """Answer with one result a resource: all of its changes are made, or none. A resource that is named twice is refused, as in Kafka."""
    responses = _responses(cluster_topics, node, request.message)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "responses": responses}))


def _responses(cluster_topics: Topics, node: Node, asked: Any) -> Iterator[dict[str, Any] | None]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in asked.resources)
    for resource in asked.resources:
        if times[resource.resource_type, resource.resource_name] == 1:
            error, message = _alter(cluster_topics, node, resource, asked)
            yield None
        else:
            error, message = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        yield {
            "error_code": error,
            "error_message": message,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }


def _alter(cluster_topics: Topics, node: Node, resource: Any, message: Any) -> tuple[ErrorCode, str | None]:
    kind, name = resource.resource_type, resource.resource_name
    if kind not in (TOPIC_RESOURCE, BROKER_RESOURCE):
        return ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}"
    if kind == BROKER_RESOURCE and name not in ("", str(node.id)):
        return ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node.id}, but received {name}"
    changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
    if len({change[0] for change in changes}) != len(changes):
        return ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys"
    if any(operation not in _OPERATIONS for _, operation, _ in changes):
        return ErrorCode.INVALID_REQUEST, "Unknown operation: 0 sets, 1 deletes, 2 appends, 3 subtracts"
    if any(value is None and operation != DELETE for _, operation, value in changes):
        return ErrorCode.INVALID_REQUEST, "Null value not supported; to go back to the default, delete the setting"
    try:
        refused = cluster_topics.alter_config(kind, name, changes, validate_only=message.validate_only)
    except StorageError as error:
        return error.code, str(error)
    if refused is None:
        return ErrorCode.NONE, None
    hint = suggestion(kind, refused) if len(message.resources) <= SUGGESTIONS_MAX else ""
    return refused.error, refused.message + hint


API = Api(key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=range(2), handle=handle)
