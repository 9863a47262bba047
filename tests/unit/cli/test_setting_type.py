"""Tests of settings on the command line."""

import click
import pytest
from click.testing import CliRunner

from ottla.cli.setting_type import SettingType


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
