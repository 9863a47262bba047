"""The file of `--command-config`: a client's settings as Kafka's tools take them, as far as they mean something here.

Connections are plain. Whatever asks for security is refused by its name, so that nobody believes in a protection that is not there.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.cli.groups.failures import CommandFailed
from ottla.cli.properties import parse_properties

PLAINTEXT: Final = "PLAINTEXT"
CLIENT_ID: Final = "client.id"
_SECURITY: Final = re.compile(r"(sasl|ssl|security)\.")


def read_client_config(path: str | None) -> dict[str, str]:
    """The settings of a file, none without one. Raises CommandFailed when it cannot be read or asks for security."""
    if path is None:
        return {}
    try:
        text = Path(path).read_text("latin-1")
    except FileNotFoundError as error:
        raise CommandFailed(f"java.nio.file.NoSuchFileException: {path}") from error
    except OSError as error:
        raise CommandFailed(f"{path} cannot be read: {error.strerror or error}") from error
    settings = parse_properties(text)
    check_plaintext(settings, path)
    return settings


def check_plaintext(settings: Mapping[str, str], path: str) -> None:
    """Raises CommandFailed for the first setting that asks for more than a plain connection."""
    for name, value in settings.items():
        if name == "security.protocol" and value.upper() == PLAINTEXT:
            continue
        if _SECURITY.match(name):
            raise CommandFailed(f"{path} sets {name}={value}, but Ottla connects without security only (security.protocol=PLAINTEXT)")
