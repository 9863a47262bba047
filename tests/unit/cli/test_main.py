"""The command finder: one file a command, and nothing heavy for `--help`."""

from click.testing import CliRunner

from ottla import __version__
from ottla.cli.main import main


def test_help_lists_every_command_file() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    assert "broker" in result.output


def test_version() -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).output


def test_an_unknown_command_says_so() -> None:
    result = CliRunner().invoke(main, ["brokr"])
    assert result.exit_code == 2
    assert "No such command" in result.output
