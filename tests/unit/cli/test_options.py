"""Settings, assignors and files of properties as options take them."""

from pathlib import Path

import click
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from ottla.cli.options import AssignorType, SettingType, parse_properties


@click.command()
@click.option("--config", type=SettingType("a.b=1"), multiple=True)
def command(config: tuple[tuple[str, str], ...]) -> None:
    click.echo(config)


def test_names_and_values() -> None:
    given = ["--config", "a=b", "--config", " a.c =x=y", "--config", "d="]
    assert CliRunner().invoke(command, given).output == "(('a', 'b'), ('a.c', 'x=y'), ('d', ''))\n"


@pytest.mark.parametrize("text", ["a", "=b", " =b"])
def test_what_is_none(text: str) -> None:
    result = CliRunner().invoke(command, ["--config", text])
    assert result.exit_code == 2
    assert f"{text!r}: write a setting as NAME=VALUE, for example a.b=1" in result.output


@click.command
@click.option("--assignor", type=AssignorType(["legacy-range"]))
def command_assignor_type(assignor: str) -> None:
    click.echo(assignor)


def run(name: str) -> tuple[int, str]:
    result = CliRunner().invoke(command_assignor_type, ["--assignor", name])
    return result.exit_code, result.output


def test_names_of_kafka_and_more() -> None:
    assert run("sticky") == (0, "sticky\n")
    assert run("legacy-range") == (0, "legacy-range\n")
    status, said = run("stickey")
    assert status == 2
    assert "did you mean 'sticky'" in said


def test_a_class_in_the_working_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "assignor_in_the_working_directory.py").write_text(
        "from ottla.groups.assignors import Assignor\n\n"
        "class Mine(Assignor):\n"
        "    name = 'mine'\n"
        "    def assign(self, members, partitions, racks):\n"
        "        return {each.member_id: {} for each in members}\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", ["elsewhere"])
    assert run("assignor_in_the_working_directory:Mine") == (0, "assignor_in_the_working_directory:Mine\n")


def test_shells_complete_the_names() -> None:
    found = ShellComplete(command_assignor_type, {}, "command", "_COMPLETE").get_completions(["--assignor"], "s")
    assert [each.value for each in found] == ["sticky"]
    assert "NAME|module:Class" in CliRunner().invoke(command_assignor_type, ["--help"]).output


def test_properties_as_java_reads_them() -> None:
    text = "# comment\n! too\n\n a = b \nc:d\ne f\ng\nlong=one, \\\n   two\nk\\=ey=v\\u0041\\tx\\\\\n"
    assert parse_properties(text) == {"a": "b ", "c": "d", "e": "f", "g": "", "long": "one, two", "k=ey": "vA\tx\\"}
