"""Entry point of `ottla`: finds the command by its file's name and runs it. It knows no command."""

import importlib
import os
import pkgutil
from typing import Any

import click

from ottla import __version__
from ottla.cli import commands
from ottla.extras import MissingExtraError


def open_standard_streams() -> None:
    """Open those of the three that are closed. To be called before anything else is opened."""
    for descriptor in (0, 1, 2):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one is this one


class DropInGroup(click.Group):
    """A click group whose commands are the files of `ottla.cli.commands`; only the one that is run is imported."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Every command, by the names of the files."""
        return sorted(module.name.replace("_", "-") for module in pkgutil.iter_modules(commands.__path__))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a name, or None."""
        if cmd_name not in self.list_commands(ctx):
            return None
        module = importlib.import_module(f"{commands.__name__}.{cmd_name.replace('-', '_')}")
        command = module.COMMAND
        assert isinstance(command, click.Command)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; where it needs an extra that is not installed, say so and end with status 1."""
        try:
            return super().invoke(ctx)
        except MissingExtraError as error:
            raise click.ClickException(str(error)) from error


@click.group(cls=DropInGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ottla")
def main() -> None:
    """Kafka consumer groups that you can run, see and replay."""
    open_standard_streams()
