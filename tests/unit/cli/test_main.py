"""The command finder: one file a command, and nothing heavy for `--help`."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from ottla import __version__
from ottla.cli.main import main
from ottla.extras import EXTRAS

COMMANDS = main.list_commands(click.Context(main))


def test_help_lists_every_command_file() -> None:
    result = CliRunner().invoke(main, ["--help"])
    assert result.exit_code == 0
    listed = result.output.partition("Commands:\n")[2].splitlines()
    assert [line.split()[0] for line in listed] == COMMANDS
    assert all(line.endswith(".") and not line.endswith("...") for line in listed), "a short help that is cut at 80 columns"


def all_commands(group: click.Group, context: click.Context, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from all_commands(command, context, (*path, name))
        else:
            yield " ".join((*path, name)), command


def test_every_command_has_a_form_for_programs() -> None:
    without = [
        name for name, command in all_commands(main, click.Context(main)) if not any("--json" in each.opts for each in command.params)
    ]
    assert without == []


def test_version() -> None:
    assert __version__ in CliRunner().invoke(main, ["--version"]).output


def test_an_unknown_command_says_so() -> None:
    result = CliRunner().invoke(main, ["brokr"])
    assert result.exit_code == 2
    assert "No such command" in result.output


WITHOUT_EXTRAS = """
import json, sys
for name in json.loads(sys.argv.pop(1)):
    sys.modules[name] = None
from ottla.cli.main import main
main()
"""
RUN = ["run", "lag", "--bootstrap-server", "127.0.0.1:9", "--output", "out"]


def without_extras(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_EXTRAS, json.dumps([*EXTRAS["test"], "hypothesis"]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("command", [[], *([name] for name in COMMANDS), ["pipeline", "run"]], ids=" ".join)
def test_help_needs_no_extra(command: list[str]) -> None:
    done = without_extras(*command, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Usage: ")


@pytest.mark.parametrize(
    ("command", "extra"),
    [
        (["demo"], "demo"),
        (["pipeline", "list"], "spark"),
        (["pipeline", "show", "lag"], "spark"),
        (["pipeline", *RUN], "spark"),
        (["migrate", "a", "b", "--bootstrap-server", "127.0.0.1:9"], "spark"),
        (["spark-submit-args"], "spark"),
        (["spark", "checkpoint", "--to", "kafka", "."], "spark"),
    ],
    ids=lambda value: " ".join(value[:2]) if isinstance(value, list) else value,
)
def test_a_command_without_its_extra_says_what_to_install(command: list[str], extra: str) -> None:
    done = without_extras(*command)
    assert (done.returncode, done.stdout) == (1, "")
    assert re.fullmatch(rf'Error: pyspark.* not installed: pip install "ottla\[{extra}\]"\n', done.stderr), done.stderr


@pytest.mark.parametrize(
    "command", ["migrate a b --bootstrap-server 127.0.0.1:9", "pipeline run lag --bootstrap-server 127.0.0.1:9 --output out", "demo"]
)
def test_one_package_that_is_missing_is_named_before_anything_starts(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    result = CliRunner().invoke(main, command.split())
    assert (result.exit_code, result.output[:45]) == (1, 'Error: pandas is not installed: pip install "')
