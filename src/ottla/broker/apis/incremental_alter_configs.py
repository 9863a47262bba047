"""IncrementalAlterConfigs (44), v0-1: sets, deletes, appends to and subtracts from settings of topics, groups and
this broker (KIP-339)."""

from collections.abc import Sequence
from typing import Any

from ottla.broker.cluster.brokers import Node
from ottla.broker.cluster.topics import Topics, access_to_configs, alter_resources
from ottla.broker.network.request import NO_THROTTLE_MS, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.metadata.config_changes import DELETE, OPERATIONS, Change
from ottla.protocol.errors import ApiError, ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation


def handle(request: Request, *, cluster_topics: Topics, node: Node, scheduler: RequestScheduler) -> None:
    """Answer with one result a resource: all of its changes are made, or none."""
    message = request.message
    responses = alter_resources(cluster_topics, node.id, message.resources, _changes, validate_only=message.validate_only)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "responses": responses}))


def _changes(resource: Any) -> Sequence[Change] | ApiError:
    changes = [(config.name, config.config_operation, config.value) for config in resource.configs]
    if any(operation not in OPERATIONS for _, operation, _ in changes):
        return ApiError(ErrorCode.INVALID_REQUEST, "Unknown operation: 0 sets, 1 deletes, 2 appends, 3 subtracts")
    if any(value is None and operation != DELETE for _, operation, value in changes):
        return ApiError(ErrorCode.INVALID_REQUEST, "Null value not supported; to go back to the default, delete the setting")
    return changes


API = Api(
    key=ApiKey.INCREMENTAL_ALTER_CONFIGS, versions=range(2), handle=handle, access=access_to_configs(Operation.ALTER_CONFIGS, "responses")
)
