"""Entry point of `ottla`: finds the command by its file's name and runs it. It knows no command."""

import errno
import importlib
import io
import os
import pkgutil
import sys
from typing import Any, Final

import click

from ottla import __version__
from ottla.cli import commands
from ottla.extras import MissingExtraError

_NO_MEMORY: Final = "there is not enough memory: raise its limit (ulimit -v), or read less at once"
_NO_ROOM: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)


def open_standard_streams() -> None:
    """Open those of the three that are closed, before anything else is opened; and show any text on any terminal."""
    for descriptor, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        try:
            os.fstat(descriptor)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free one is this one
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, io.TextIOWrapper(io.FileIO(descriptor, mode, closefd=False), encoding="utf-8"))
        elif mode == "w" and isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


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

    def main(self, *args: Any, **extra: Any) -> Any:
        """Run the command. Where an extra, memory or room for the output is missing, or a name is no text, say so and end with status 1."""
        open_standard_streams()
        try:
            try:
                return super().main(*args, **extra)
            finally:
                sys.stdout.flush()
        except MissingExtraError as error:
            problem = str(error)
        except MemoryError:
            problem = _NO_MEMORY
        except UnicodeEncodeError as error:
            given = error.object.encode(errors="surrogateescape").decode(errors="backslashreplace")
            problem = f"{given} is not UTF-8 text here: in a locale without UTF-8, set LC_ALL=C.UTF-8"
        except OSError as error:
            if error.errno == errno.ENOMEM:  # from a system call, such as mmap
                problem = _NO_MEMORY
            elif error.errno in _NO_ROOM and error.filename is None:
                os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what waits to be written is tried again at the end
                problem = f"the output cannot be written: {error.strerror}"
            else:
                raise
        click.ClickException(problem).show()
        sys.exit(1)


@click.group(cls=DropInGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="ottla")
def main() -> None:
    """Kafka consumer groups that you can run, see and replay."""
