"""ListConfigResources (74), v0-1: the resources that may have settings (KIP-1142): topics, running brokers, and the groups that have some.

Version notes: v0 asks for client metrics alone, v1+ for any types. Client metrics and loggers of brokers have no settings here.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from ottla.broker.cluster.brokers import Brokers
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.resource_configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType

_BROKER_LOGGERS: Final = 8
_CLIENT_METRICS: Final = 16
_TYPES: Final = {TOPIC_RESOURCE, BROKER_RESOURCE, _BROKER_LOGGERS, _CLIENT_METRICS, GROUP_RESOURCE}


def handle(request: Request, *, brokers: Brokers, cluster_metadata: ClusterMetadata, scheduler: RequestScheduler) -> None:
    """Answer with the resources of the types that are asked for, those of all types where there is none; UNSUPPORTED_VERSION for others."""
    asked = set(request.message.resource_types) or _TYPES if request.version else {_CLIENT_METRICS}
    error, resources = ErrorCode.NONE, _resources(asked, brokers, tuple(cluster_metadata.topics), cluster_metadata.configs.groups())
    if not asked <= _TYPES:
        error, resources = ErrorCode.UNSUPPORTED_VERSION, iter(())
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "error_code": error, "config_resources": resources}))


def _resources(asked: set[int], brokers: Brokers, topics: Iterable[str], groups: Iterable[str]) -> Iterator[dict[str, Any]]:
    if BROKER_RESOURCE in asked:
        for node in brokers.nodes.values():
            if node.is_alive:
                yield {"resource_name": str(node.id), "resource_type": BROKER_RESOURCE}
    if TOPIC_RESOURCE in asked:
        for name in topics:
            yield {"resource_name": name, "resource_type": TOPIC_RESOURCE}
    if GROUP_RESOURCE in asked:
        for name in groups:
            yield {"resource_name": name, "resource_type": GROUP_RESOURCE}


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "config_resources": ()})


API = Api(
    key=ApiKey.LIST_CONFIG_RESOURCES,
    versions=range(2),
    handle=handle,
    access=(Access(Operation.DESCRIBE_CONFIGS, ResourceType.CLUSTER, refuse=_refuse),),
)
