"""The option `--assignor`: a name of Kafka's, or a user's own class as `module:Class`, which may be in the working directory."""

import os
import sys
from collections.abc import Iterable

import click
from click.shell_completion import CompletionItem

from ottla.core.assignors import assignors, find_assignor


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
