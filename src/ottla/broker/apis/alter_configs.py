"""AlterConfigs (33), v0-2: replaces all settings of topics and of this broker; those that the request leaves out are deleted.

Version notes: v2+ is flexible. Clients use IncrementalAlterConfigs where they can, since two of them would undo each other's changes.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ottla.broker.cluster.config_alteration import alter_resources
from ottla.broker.cluster.node import Node
from ottla.broker.cluster.topics import Topics
from ottla.broker.network.request_scheduler import RequestScheduler
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.core.errors import ApiError
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.config_changes import Change, replacing
from ottla.core.wire.api_keys import ApiKey


def handle(request: Request, *, cluster_metadata: ClusterMetadata, cluster_topics: Topics, node: Node, scheduler: RequestScheduler) -> None:
    """Answer with one result a resource: all of its settings are replaced, or none."""
    message, changes_of = request.message, partial(_changes, cluster_metadata)
    responses = alter_resources(cluster_topics, node.id, message.resources, changes_of, validate_only=message.validate_only)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "responses": responses}))


def _changes(cluster_metadata: ClusterMetadata, resource: Any) -> Sequence[Change] | ApiError:
    wanted = {config.name: config.value for config in resource.configs}
    return replacing(cluster_metadata.configs_set(resource.resource_type, resource.resource_name), wanted)


API = Api(key=ApiKey.ALTER_CONFIGS, versions=range(3), handle=handle)
