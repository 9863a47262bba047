"""DescribeConfigs (32), v1-4: the settings of topics and of this broker, with the source of each value.

Version notes: v3+ adds types and documentation.
"""

from collections.abc import Iterator
from typing import Any, Final

from ottla.broker.cluster.node import Node
from ottla.broker.network.request_scheduler import RequestScheduler
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.core.config import BROKER_SETTINGS, DYNAMIC_BROKER_SETTINGS, OTHER_UNITS, TOPIC_SETTINGS, BrokerConfig, ConfigSource, Setting
from ottla.core.errors import ErrorCode
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.resource_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.core.metadata.topics import topic_name_problem
from ottla.core.wire.api_keys import ApiKey

_TYPE_UNKNOWN = 0
_ALL: Final[frozenset[str]] = frozenset()
"""No setting is named: all are described."""
PIECE: Final = 512
"""So many resources are read before other requests continue."""


def handle(request: Request, *, cluster_metadata: ClusterMetadata, config: BrokerConfig, node: Node, scheduler: RequestScheduler) -> None:
    """Answer with one result a resource, in pieces."""
    results = _results(cluster_metadata, config, node, request.message)
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "results": results}))


def _results(cluster_metadata: ClusterMetadata, config: BrokerConfig, node: Node, message: Any) -> Iterator[dict[str, Any] | None]:
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
        yield _describe(cluster_metadata, config, node, kind, name, keys, message.include_synonyms, documented)


def _describe(
    cluster_metadata: ClusterMetadata,
    config: BrokerConfig,
    node: Node,
    kind: int,
    name: str,
    keys: frozenset[str],
    synonyms: bool,
    documented: bool,
) -> dict[str, Any]:
    error, message = _problem(cluster_metadata, node, kind, name)
    settings = TOPIC_SETTINGS if kind == TOPIC_RESOURCE else BROKER_SETTINGS
    chosen = [setting for setting in settings.values() if (not keys or setting.name in keys) and not setting.is_internal]
    found = cluster_metadata.configs_set(kind, name)
    others = [_unknown(kind, *each) for each in found.items() if each[0] not in settings and (not keys or each[0] in keys)]
    return {
        "error_code": error,
        "error_message": message,
        "resource_type": kind,
        "resource_name": name,
        "configs": []
        if error
        else [_config(cluster_metadata, config, kind, name, setting, synonyms, documented) for setting in chosen] + others,
    }


def _problem(cluster_metadata: ClusterMetadata, node: Node, kind: int, name: str) -> tuple[ErrorCode, str | None]:
    if kind == TOPIC_RESOURCE:
        problem = topic_name_problem(name)
        if problem:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, problem
        known = name in cluster_metadata.topics
        return (ErrorCode.NONE, None) if known else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
    if kind == BROKER_RESOURCE:
        if name in ("", str(node.id)):
            return ErrorCode.NONE, None
        return ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node.id}, but received {name}"
    return ErrorCode.INVALID_REQUEST, f"Unsupported resource type: {kind}"


def _config(
    cluster_metadata: ClusterMetadata, config: BrokerConfig, kind: int, resource: str, setting: Setting, synonyms: bool, documented: bool
) -> dict[str, Any]:
    text, source = cluster_metadata.config_value(kind, resource, setting.name)
    value = setting.plain(text)
    # The value of such a setting is that of one in another unit until it is given itself.
    is_unset = kind == BROKER_RESOURCE and source is not ConfigSource.DYNAMIC_BROKER and setting.name not in config.given
    if is_unset and (setting.name in OTHER_UNITS or not setting.default):
        return _unset(setting, documented)
    return {
        "name": setting.name,
        "value": value,
        "read_only": kind == BROKER_RESOURCE and setting.name not in DYNAMIC_BROKER_SETTINGS,
        "config_source": source,
        "is_sensitive": False,
        "synonyms": _synonyms(cluster_metadata, kind, setting, value, source) if synonyms else [],
        "config_type": setting.type,
        "documentation": setting.doc if documented else None,
    }


def _unset(setting: Setting, documented: bool) -> dict[str, Any]:
    return {
        "name": setting.name,
        "value": None,
        "read_only": setting.name not in DYNAMIC_BROKER_SETTINGS,
        "config_source": ConfigSource.DEFAULT,
        "is_sensitive": False,
        "synonyms": [],
        "config_type": setting.type,
        "documentation": setting.doc if documented else None,
    }


def _unknown(kind: int, name: str, value: str) -> dict[str, Any]:
    """A setting that was set with Apache Kafka and is not known here: kept and shown, but of a broker's, which may be a secret."""
    is_shown = kind == TOPIC_RESOURCE
    return {
        "name": name,
        "value": value if is_shown else None,
        "read_only": False,
        "config_source": ConfigSource.DYNAMIC_TOPIC if is_shown else ConfigSource.DYNAMIC_BROKER,
        "is_sensitive": not is_shown,
        "synonyms": [],
        "config_type": _TYPE_UNKNOWN,
        "documentation": None,
    }


def _synonyms(cluster_metadata: ClusterMetadata, kind: int, setting: Setting, value: str, source: ConfigSource) -> list[dict[str, Any]]:
    """The chain of values from the one in force to the default, as Kafka lists it."""
    chain: list[dict[str, Any]] = []
    broker_name = setting.name
    if kind == TOPIC_RESOURCE:
        assert setting.broker_name is not None
        broker_name = setting.broker_name
        if source is ConfigSource.DYNAMIC_TOPIC:
            chain.append({"name": setting.name, "value": value, "source": source})
    broker_value, broker_source = cluster_metadata.config_value(BROKER_RESOURCE, "", broker_name)
    if broker_source is not ConfigSource.DEFAULT:
        chain.append({"name": broker_name, "value": broker_value, "source": broker_source})
    # Kafka keeps the default of these in a setting of another unit (log.retention.hours and its like), and does not list it.
    if broker_name not in OTHER_UNITS:
        chain.append({"name": broker_name, "value": BROKER_SETTINGS[broker_name].default, "source": ConfigSource.DEFAULT})
    return chain


API = Api(key=ApiKey.DESCRIBE_CONFIGS, versions=range(1, 5), handle=handle)
