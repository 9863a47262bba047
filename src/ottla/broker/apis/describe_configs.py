"""DescribeConfigs (32), v1-4: the settings of topics, groups and this broker, with the source of each value.

Version notes: v3+ adds types and documentation. All of Kafka's settings are described; the documentation says which have no effect here.
The broker "" stands for all brokers: it has what was set for all of them.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ottla.broker.cluster.brokers import Node, address_text
from ottla.broker.cluster.topics import access_to_configs
from ottla.broker.network.request import NO_THROTTLE_MS, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.config import FIXED_VALUES, BrokerConfig, shown
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.config_descriptions import ConfigDescription, ConfigDescriptions
from ottla.metadata.resource_configs import BROKER_RESOURCE, GROUP_RESOURCE, TOPIC_RESOURCE
from ottla.metadata.topics import topic_name_problem
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation

_ALL: Final[frozenset[str]] = frozenset()
"""No setting is named: all are described."""
PIECE: Final = 512
"""So many resources are read before other requests continue."""


def handle(
    request: Request,
    *,
    cluster_metadata: ClusterMetadata,
    config: BrokerConfig,
    log_directory: str,
    node: Node,
    scheduler: RequestScheduler,
) -> None:
    """Answer with one result a resource, in pieces."""
    descriptions = ConfigDescriptions(cluster_metadata.configs, _started_with(config, log_directory, node), broker_id=node.id)
    results = _results(cluster_metadata, descriptions, node, request.message)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": results}))


def _started_with(config: BrokerConfig, log_directory: str, node: Node) -> Mapping[str, str]:
    """The settings that were given, and what Kafka has as settings: ids, addresses and the directory."""
    return {
        **config.given,
        **FIXED_VALUES,
        "advertised.listeners": ",".join(
            f"{each.name}://{address_text(*each.advertised)}" for each in node.listeners.values() if each.advertised
        ),
        "broker.id": str(node.id),
        "listeners": ",".join(f"{each.name}://{address_text(each.host, each.port)}" for each in node.listeners.values()),
        "log.dirs": log_directory,
        "node.id": str(node.id),
    }


def _results(
    cluster_metadata: ClusterMetadata, descriptions: ConfigDescriptions, node: Node, message: Any
) -> Iterator[dict[str, Any] | None]:
    """A resource that is named twice is described once, with every setting that one of them names."""
    asked: dict[tuple[int, str], frozenset[str]] = {}
    for count, resource in enumerate(message.resources):
        resource_id = resource.resource_type, resource.resource_name
        keys = frozenset(resource.configuration_keys) if resource.configuration_keys else _ALL
        before = asked.get(resource_id, keys)
        asked[resource_id] = before | keys if before and keys else _ALL
        if count % PIECE == 0:
            yield None
    documented = bool(getattr(message, "include_documentation", False))
    for (kind, name), keys in asked.items():
        error, problem = _problem(cluster_metadata, node, kind, name)
        found = () if error else _described(descriptions, kind, name)
        yield {
            "error_code": error,
            "error_message": problem,
            "resource_type": kind,
            "resource_name": name,
            "configs": [_config(each, message.include_synonyms, documented) for each in found if not keys or each.name in keys],
        }


def _problem(cluster_metadata: ClusterMetadata, node: Node, kind: int, name: str) -> tuple[ErrorCode, str]:
    if kind == TOPIC_RESOURCE:
        problem = topic_name_problem(name)
        if problem:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, problem
        known = name in cluster_metadata.topics
        return (ErrorCode.NONE, "") if known else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if kind == BROKER_RESOURCE:
        if name in ("", str(node.id)):
            return ErrorCode.NONE, ""
        if not name.removeprefix("-").isdecimal():
            return ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {shown(name)}"
        return ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node.id} or empty string, but received {name}"
    if kind == GROUP_RESOURCE:
        return (ErrorCode.NONE, "") if name else (ErrorCode.INVALID_REQUEST, "Group name must not be empty")
    return ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}"


def _described(descriptions: ConfigDescriptions, kind: int, name: str) -> Iterator[ConfigDescription]:
    if kind == TOPIC_RESOURCE:
        return descriptions.of_topic(name)
    if kind == GROUP_RESOURCE:
        return descriptions.of_group(name)
    return descriptions.of_broker() if name else descriptions.of_all_brokers()


def _config(described: ConfigDescription, synonyms: bool, documented: bool) -> dict[str, Any]:
    return {
        "name": described.name,
        "value": described.value,
        "read_only": described.is_read_only,
        "config_source": described.source,
        "is_sensitive": described.is_sensitive,
        "synonyms": [each._asdict() for each in described.synonyms] if synonyms else [],
        "config_type": described.type,
        "documentation": described.doc if documented else None,
    }


API = Api(key=ApiKey.DESCRIBE_CONFIGS, versions=range(1, 5), handle=handle, access=access_to_configs(Operation.DESCRIBE_CONFIGS, "results"))
