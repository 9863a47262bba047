"""What several commands take: settings as NAME=VALUE, assignors by name or class, files of Java properties; and usage errors as Kafka's."""

import os
import re
import sys
from collections.abc import Iterable
from typing import Any, Final

import click
from click.shell_completion import CompletionItem

from ottla.groups.assignors import assignors, find_assignor


class KafkaCommand(click.Command):
    """A command whose usage errors end with 1, as those of Kafka's tools do."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the command line."""
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            error.show()
            ctx.exit(1)


class SettingType(click.ParamType):  # type: ignore[type-arg]
    """Converts NAME=VALUE to a pair. `example` is shown where it is neither."""

    name = "setting"

    def __init__(self, example: str) -> None:
        self._example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        """The pair; a usage error without a name or without "="."""
        if isinstance(value, tuple):
            return value
        name, equals, text = str(value).partition("=")
        if not equals or not name.strip():
            self.fail(f"{value!r}: write a setting as NAME=VALUE, for example {self._example}", param, ctx)
        return name.strip(), text


class AssignorType(click.ParamType):  # type: ignore[type-arg]
    """An assignor by its name; `more` are names that are known here besides those of `assignors()`."""

    name = "assignor"

    def __init__(self, more: Iterable[str] = ()) -> None:
        self._more = frozenset(more)

    def get_metavar(self, param: click.Parameter, ctx: click.Context | None = None) -> str:
        """As the help shows it."""
        return "NAME|module:Class"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The name, once it is known that there is such an assignor."""
        if value not in self._more:
            # As `python -m` does: the program `ottla` itself looks for modules where it is installed.
            if os.getcwd() not in sys.path:
                sys.path.insert(0, os.getcwd())
            try:
                find_assignor(value)
            except ValueError as error:
                self.fail(str(error), param, ctx)
        return value

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """The names that begin like this."""
        return [CompletionItem(name) for name in sorted({*assignors(), *self._more}) if name.startswith(incomplete)]


_LINE: Final = re.compile(r"((?:\\.|[^\\=:\s])+)(?:\s*[=:]\s*|\s+|$)(.*)", re.DOTALL)


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
