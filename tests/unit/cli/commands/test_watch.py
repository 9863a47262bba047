"""Tests of the command line of `ottla watch`."""

from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.main import main
from ottla.cli.watch import run as run_module
from ottla.cli.watch.run import WatchOptions


def test_the_options_of_the_command_line(monkeypatch: Any) -> None:
    given: list[WatchOptions] = []
    monkeypatch.setattr(run_module, "run", lambda options, **_: given.append(options) or 0)
    arguments = [
        "--bootstrap-server",
        "h:1",
        "--output",
        "a",
        "--group",
        "g",
        "--group",
        "h",
        "--interval",
        "2",
        "--duration",
        "3",
        "--json",
    ]
    assert CliRunner().invoke(main, ["watch", *arguments]).exit_code == 0
    assert CliRunner().invoke(main, ["watch", "--bootstrap-server", "h:1", "--output", "a"]).exit_code == 0
    assert given == [
        WatchOptions(bootstrap_server="h:1", output="a", groups=("g", "h"), interval_s=2.0, duration_s=3.0, as_json=True),
        WatchOptions(bootstrap_server="h:1", output="a"),
    ]


@pytest.mark.parametrize(
    "arguments", [[], ["--bootstrap-server", "h:1"], ["--bootstrap-server", "h:1", "--output", "a", "--interval", "0"]]
)
def test_what_is_missing_or_wrong(arguments: list[str]) -> None:
    assert CliRunner().invoke(main, ["watch", *arguments]).exit_code == 2
