"""The values of an option like `--config`: a setting as NAME=VALUE. It knows no setting."""

from typing import Any

import click


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
