"""`ottla groups` as a command: its options, streams and exit status."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.commands.groups import COMMAND, FLAGS, OPTIONAL, ORDER, VALUES, groups_options
from ottla.cli.main import main

OTTLA = str(Path(sys.executable).with_name("ottla"))


def test_every_option_has_its_place_in_the_help() -> None:
    assert sorted(ORDER) == sorted([name for name, *_ in (*FLAGS, *VALUES, *OPTIONAL)])
    text = CliRunner().invoke(main, ["groups", "--help"]).stdout
    assert all(f"--{name} " in text for name in ORDER)


def test_options_by_their_names() -> None:
    arguments = ["--list", "--state", "--group", "a", "--group=b", "--shift-by", "-5", "--type", "x"]
    context = COMMAND.make_context("groups", arguments)
    options = groups_options(context.params)
    assert options.flags == {"list"}
    assert {name: values for name, values in options.values.items() if values} == {
        "state": ("",),
        "group": ("a", "b"),
        "shift-by": ("-5",),
        "type": ("x",),
    }


@pytest.mark.parametrize("arguments", [["--bogus"], ["--group"], ["--list", "--from-file"]])
def test_a_command_line_that_cannot_be_read_is_1_as_with_kafka(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, ["groups", *arguments])
    assert (result.exit_code, result.stdout) == (1, "")
    assert "Error: " in result.stderr


def test_streams_and_status_of_the_process() -> None:
    ran = subprocess.run([OTTLA, "groups", "--list"], capture_output=True, text=True, timeout=30, check=False)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith('Missing required argument "[bootstrap-server]"')
