"""AlterConfigs (33), v0-2: replaces all settings of topics, groups and this broker; those that the request leaves out are deleted.

Version notes: v2+ is flexible. Clients use IncrementalAlterConfigs where they can, since two of them would undo each other's changes.
"""

from collections.abc import Sequence
from functools import partial
from typing import Any

from ottla.broker.cluster.brokers import Node
from ottla.broker.cluster.topics import Topics, access_to_configs, alter_resources
from ottla.broker.network.request import NO_THROTTLE_MS, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.config_changes import Change, replacing
from ottla.protocol.errors import ApiError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation


def handle(request: Request, *, cluster_metadata: ClusterMetadata, cluster_topics: Topics, node: Node, scheduler: RequestScheduler) -> None:
    """Answer with one result a resource: all of its settings are replaced, or none."""
    message, changes_of = request.message, partial(_changes, cluster_metadata)
    responses = alter_resources(cluster_topics, node.id, message.resources, changes_of, validate_only=message.validate_only)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "responses": responses}))


def _changes(cluster_metadata: ClusterMetadata, resource: Any) -> Sequence[Change] | ApiError:
    wanted = {config.name: config.value for config in resource.configs}
    return replacing(cluster_metadata.configs_set(resource.resource_type, resource.resource_name), wanted)


API = Api(key=ApiKey.ALTER_CONFIGS, versions=range(3), handle=handle, access=access_to_configs(Operation.ALTER_CONFIGS, "responses"))
