"""The consumer's properties, from the options of the command line and the file of `--command-config`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.cli.groups.client_config import read_client_properties
from ottla.client.consumer.properties import OWN

CLIENT_ID: Final = "ottla-consume"
NO_GROUP: Final = "ottla-consume"
"""The group's name where there is none; no request has it."""
_FROM_OPTIONS: Final = frozenset({"group.id", "on_commit", "enable.partition.eof", "enable.auto.offset.store"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The cluster, the group (None: partitions are assigned) and how records are read. `config`: what `--config` gives."""

    bootstrap_server: str
    group: str | None = None
    is_member: bool = False
    reset: str = "earliest"
    isolation_level: str | None = None
    command_config: str | None = None
    config: Sequence[tuple[str, str]] = field(default=())


def consumer_properties(source: Source) -> Mapping[str, Any]:
    """Properties for `ottla.Consumer`. Raises CommandFailed for a file that cannot be read, ValueError for what options decide."""
    given = dict(source.config)
    for name in sorted(given.keys() & (_FROM_OPTIONS | {"bootstrap.servers"})):
        raise ValueError(f"{name} cannot be set by --config: it follows from the other options")
    in_file = {} if source.command_config is None else read_client_properties(source.command_config, *(OWN - _FROM_OPTIONS))
    properties = {"client.id": CLIENT_ID, "auto.offset.reset": source.reset, **in_file, **given}
    properties |= {"bootstrap.servers": source.bootstrap_server, "group.id": source.group or NO_GROUP}
    if source.isolation_level is not None:
        properties["isolation.level"] = source.isolation_level
    if not source.is_member:
        properties["enable.auto.commit"] = "false"
    # What is printed is stored for the next commit, and not before.
    return properties | {"enable.auto.offset.store": False, "enable.partition.eof": True}
