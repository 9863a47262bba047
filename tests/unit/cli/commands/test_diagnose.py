import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from ottla.cli.commands.diagnose import COMMAND

LOG = str(Path(__file__).parents[3] / "data" / "logs" / "apache-kafka-4.3.0.log")


def test_a_log_gives_verdicts() -> None:
    result = CliRunner().invoke(COMMAND, ["--broker-log", LOG, "--group", "java-coop", "--utc", "--json"])
    assert result.exit_code == 0
    assert {json.loads(line)["group"] for line in result.stdout.splitlines()} == {"java-coop"}


@pytest.mark.parametrize("option", ["--since", "--until"])
def test_a_time_that_is_none_is_a_usage_error(option: str) -> None:
    result = CliRunner().invoke(COMMAND, ["--broker-log", LOG, option, "soon"])
    assert result.exit_code == 2
    assert "is no time" in result.output


def test_no_source_says_what_to_give() -> None:
    result = CliRunner().invoke(COMMAND, [])
    assert result.exit_code == 1
    assert "--bootstrap-server" in result.output
