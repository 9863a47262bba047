"""IncrementalAlterConfigs (44), v0-1: sets, deletes, appends to and subtracts from settings of topics and of this broker (KIP-339)."""

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.core.catalogue.resource_configs import BROKER_RESOURCE, SUGGESTIONS_MAX, TOPIC_RESOURCE, suggestion
from ottla.core.errors import ErrorCode, StorageError

if TYPE_CHECKING:
    from ottla.broker.node import Node

_OPERATIONS = range(4)
DELETE = 1


def handle(node: "Node", request: Request) -> None:
    """Answers with one result a resource: all of its changes are made, or none. A resource that is named twice is refused, as in Kafka."""
    responses = _responses(node, request.message)
    node.cluster.scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "responses": responses}))


def _responses(node: "Node", asked: Any) -> Iterator[dict[str, Any] | None]:
    times = Counter((resource.resource_type, resource.resource_name) for resource in asked.resources)
    for resource in asked.resources:
        if times[resource.resource_type, resource.resource_name] == 1:
            error, message = _alter(node, resource, asked)
            yield None
        else:
            error, message = ErrorCode.INVALID_REQUEST, "Each resource must appear at most once."
        yield {
            "error_code": error,
            "error_message": message,
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
        }


def _alter(node: "Node", resource: Any, message: Any) -> tuple[ErrorCode, str | None]:
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
        refused = node.cluster.topics.alter_config(kind, name, changes, validate_only=message.validate_only)
    except StorageError as error:
        return error.code, str(error)
    if refused is None:
        return ErrorCode.NONE, None
    hint = suggestion(kind, refused) if len(message.resources) <= SUGGESTIONS_MAX else ""
    return refused.error, refused.message + hint


API = Api(key=44, versions=range(2), handle=handle)
