"""The file of `--command-config`: a client's settings as Kafka's tools take them.

A security setting is applied or refused by its name, never ignored. Names that are no
setting of this client are passed over, as by Kafka's tools: one file often serves several of them.
"""

from pathlib import Path
from typing import Final

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.properties import parse_properties
from ottla.client.settings import NUMBER_NAMES, ClientSettings, parse_client_settings

_SECURITY: Final = ("security.", "sasl.", "ssl.")
_TAKEN: Final = NUMBER_NAMES | {"client.id"}


def client_properties(text: str, *more: str) -> dict[str, str]:
    """What of a file is meant for a client that asks: security, times and sizes, its name, and the properties named `more`."""
    taken = {*_TAKEN, *more}
    return {name: value for name, value in parse_properties(text).items() if name in taken or name.startswith(_SECURITY)}


def read_client_properties(path: str, *more: str) -> dict[str, str]:
    """`client_properties` of a file. Raises CommandFailed when it cannot be read."""
    try:
        return client_properties(Path(path).read_text("latin-1"), *more)
    except FileNotFoundError as error:
        raise CommandFailed(f"java.nio.file.NoSuchFileException: {path}") from error
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror or error}") from error


def client_settings(bootstrap_server: str, path: str | None, *, client_id: str) -> ClientSettings:
    """The settings of a command; `client_id` is the name without a file, or without one in it.

    Raises CommandFailed when the file cannot be read or holds what cannot be, and ValueError for servers that are none.
    """
    plain = ClientSettings(bootstrap_servers=bootstrap_server, client_id=client_id)
    if path is None:
        return plain
    taken = read_client_properties(path)
    parse_client_settings({"bootstrap.servers": bootstrap_server})
    try:
        return parse_client_settings({"client.id": client_id} | taken | {"bootstrap.servers": bootstrap_server})
    except ValueError as error:
        raise CommandFailed(f"{path}: {error}") from error
