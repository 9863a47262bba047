from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from ottla.cli.assignor_type import AssignorType


@click.command
@click.option("--assignor", type=AssignorType(["legacy-range"]))
def command(assignor: str) -> None:
    click.echo(assignor)


def run(name: str) -> tuple[int, str]:
    result = CliRunner().invoke(command, ["--assignor", name])
    return result.exit_code, result.output


def test_names_of_kafka_and_more() -> None:
    assert run("sticky") == (0, "sticky\n")
    assert run("legacy-range") == (0, "legacy-range\n")
    status, said = run("stickey")
    assert status == 2
    assert "did you mean 'sticky'" in said


def test_a_class_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assignor_in_the_working_directory.py").write_text(
        "from ottla.core.assignors import Assignor\n\n"
        "class Mine(Assignor):\n"
        "    name = 'mine'\n"
        "    def assign(self, members, partitions, racks):\n"
        "        return {each.member_id: {} for each in members}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["elsewhere"])
    assert run("assignor_in_the_working_directory:Mine") == (0, "assignor_in_the_working_directory:Mine\n")


def test_shells_complete_the_names() -> None:
    found = ShellComplete(command, {}, "command", "_COMPLETE").get_completions(["--assignor"], "s")
    assert [each.value for each in found] == ["sticky"]
    assert "NAME|module:Class" in CliRunner().invoke(command, ["--help"]).output
