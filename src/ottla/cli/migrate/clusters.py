"""The clusters of a migration, from addresses and the files of `--command-config` and `--to-command-config`."""

from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from ottla.spark.migration.values import Cluster

PRODUCER_NAMES: Final = ("batch.size", "buffer.memory", "compression.type", "delivery.timeout.ms", "linger.ms")
"""The properties of a file that are for the producer, besides security and client.id."""
_DEFAULTS: Final = {
    "client.id": "ottla-migrate",
    "linger.ms": "20",
    # A record that just fits into the source gets a header more; the target takes as much while it is filled.
    "max.request.size": "104857600",
    "buffer.memory": "134217728",
}


def cluster(bootstrap_server: str, path: str | None, *, option: str) -> "Cluster":
    """How to reach a cluster. `option`: the one with the addresses. Raises click.ClickException with a sentence."""
    from ottla.cli.groups.client_config import read_client_properties
    from ottla.cli.groups.failures import CommandFailed
    from ottla.client.addresses import parse_addresses
    from ottla.client.settings import parse_client_settings
    from ottla.spark.migration.values import Cluster
    from ottla.spark.options.values import OptionError
    from ottla.spark.sink.producer_settings import parse_producer_settings

    try:
        parse_addresses(bootstrap_server)
    except ValueError as error:
        raise click.BadParameter(f"{error}: write for example 127.0.0.1:9092", param_hint=option) from error
    try:
        given = read_client_properties(path, *PRODUCER_NAMES) if path is not None else {}
        addresses = {"bootstrap.servers": bootstrap_server}
        reading = {name: value for name, value in given.items() if name not in PRODUCER_NAMES}
        writing = {name: value for name, value in given.items() if _is_for_producers(name)}
        client = parse_client_settings({"client.id": _DEFAULTS["client.id"]} | reading | addresses)
        return Cluster(client=client, producer=parse_producer_settings(_DEFAULTS | writing | addresses))
    except CommandFailed as error:
        raise click.ClickException(str(error)) from error
    except (ValueError, OptionError) as error:
        raise click.ClickException(f"{path}: {error}") from error


def _is_for_producers(name: str) -> bool:
    return name in PRODUCER_NAMES or name == "client.id" or name.startswith(("security.", "sasl.", "ssl."))
