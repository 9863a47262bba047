""""""

from datetime import UTC
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ottla.cli.commands import diagnose, report, whatif
from ottla.cli.source_options import SOURCES, TIMES, TimeRange, source_options, time_options

SEEN: list[dict[str, Any]] = []


@click.command
@source_options
@time_options
@click.option("--json", "as_json", is_flag=True)
def example(**given: Any) -> None:
    SEEN.append(given)


def run(*arguments: str) -> dict[str, Any]:
    result = CliRunner().invoke(example, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return SEEN.pop()


def test_a_command_gets_its_sources_its_times_and_its_own_options() -> None:
    given = run("--broker-log", "a.log", "--broker-log", "b.log", "--since", "2026-11-22T14:31:07", "--utc", "--json")

    assert given.pop("times") == TimeRange(since_ms=1_795_357_867_000, until_ms=None, zone=UTC)
    assert given == {
        "bootstrap_server": None,
        "command_config": None,
        "broker_logs": ("a.log", "b.log"),
        "client_logs": (),
        "offsets_topics": (),
        "archives": (),
        "as_json": True,
    }


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none_names_its_option(option: str) -> None:
    result = CliRunner().invoke(example, [option, "yesterday"])

    assert result.exit_code == 2
    assert f"Invalid value for {option}: 'yesterday' is no time: write" in result.output


@pytest.mark.parametrize("command", [diagnose.command, report.command, whatif.command], ids=lambda command: command.name)
def test_every_command_of_the_diagnosis_has_the_same_options(command: click.Command) -> None:
    options = {option: parameter.help for parameter in command.params if isinstance(parameter, click.Option) for option in parameter.opts}
    shared = click.command(source_options(time_options(lambda **_: None)))

    assert len(shared.params) == len(SOURCES) + len(TIMES)
    for parameter in shared.params:
        assert isinstance(parameter, click.Option)
        assert options[parameter.opts[0]] == parameter.help
