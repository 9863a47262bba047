"""The file of `--command-config`: Java properties as Kafka's tools take them, as far as they mean something here.

Connections are plain. Whatever asks for security is refused by its name, so that nobody believes in a protection that is not there.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from ottla.cli.groups.failures import CommandFailed

PLAINTEXT: Final = "PLAINTEXT"
CLIENT_ID: Final = "client.id"
_SECURITY: Final = re.compile(r"(sasl|ssl|security)\.")
_LINE: Final = re.compile(r"((?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)


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


def parse_properties(text: str) -> dict[str, str]:
    """Names and values of a Java properties text: comments, "=", ":" or blanks between them, lines that go on behind a backslash."""
    settings = {}
    for line in re.sub(r"(?<!\\)((?:\\\\)*)\\\r?\n[ \t\f]*", r"\1", text).splitlines():
        stripped = line.lstrip(" \t\f")
        if not stripped or stripped[0] in "#!":
            continue
        found = _LINE.match(stripped)
        if found is not None:
            settings[_unescaped(found[1])] = _unescaped(found[2])
    return settings


def _unescaped(text: str) -> str:
    letters = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}

    def letter(found: re.Match[str]) -> str:
        return chr(int(found[1], 16)) if found[1] else letters.get(found[2], found[2])

    return re.sub(r"\\(?:u([0-9a-fA-F]{4})|(.))", letter, text)
