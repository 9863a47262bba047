"""The producer's properties by librdkafka's names, from the options of the command line and the file of `--command-config`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.cli.groups.client_config import read_client_properties
from ottla.cli.groups.failures import CommandFailed
from ottla.client.security.properties import parse_security, to_librdkafka

_FROM_OPTIONS: Final = frozenset({"bootstrap.servers", "metadata.broker.list", "delivery.timeout.ms", "message.timeout.ms"})
DEFAULTS: Final[Mapping[str, Any]] = {
    "client.id": "ottla-produce",
    "enable.idempotence": True,
    # The partition of a key as Java's producers choose it.
    "partitioner": "murmur2_random",
    # Failures are reported by this command.
    "log_level": 0,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The cluster, and how records are written. `config`: what `--config` gives, by librdkafka's names."""

    bootstrap_server: str
    timeout_s: float = 30.0
    compression: str | None = None
    command_config: str | None = None
    config: Sequence[tuple[str, str]] = field(default=())


def producer_properties(target: Target) -> dict[str, Any]:
    """Properties for confluent_kafka.Producer. Raises CommandFailed for a file that makes no sense, ValueError for what options decide."""
    given = dict(target.config)
    for name in sorted(given.keys() & _FROM_OPTIONS):
        raise ValueError(f"{name} cannot be set by --config: it follows from the other options")
    properties = dict(DEFAULTS)
    if target.command_config is not None:
        in_file = read_client_properties(target.command_config)
        try:
            properties |= to_librdkafka(parse_security(in_file))
        except ValueError as error:
            raise CommandFailed(f"{target.command_config}: {error}") from error
        if "client.id" in in_file:
            properties["client.id"] = in_file["client.id"]
    properties |= given
    if target.compression is not None:
        properties["compression.type"] = target.compression
    return properties | {"bootstrap.servers": target.bootstrap_server, "delivery.timeout.ms": max(int(target.timeout_s * 1000), 1)}
