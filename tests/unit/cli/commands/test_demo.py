"""`ottla demo`: what it hands on, and how it fails."""

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from rich.console import Console

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Results
from ottla.cli.main import main


def test_options_are_handed_on(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr("ottla.cli.demo.demo_run.run", lambda directory, **named: given.update(named, directory=directory))
    result = CliRunner().invoke(main, ["demo", "--results", str(tmp_path), "--assignor", "roundrobin"])
    assert result.exit_code == 0, result.output
    assert given["directory"] == tmp_path
    assert given["assignor"] == "roundrobin"
    assert given["console"].width == 100


def test_the_results_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def run(directory: Path, *, console: Console, **_: Any) -> None:
        Results(directory).write_summary({"finished": True})
        console.print("for people")

    monkeypatch.setattr("ottla.cli.demo.demo_run.run", run)
    result = CliRunner().invoke(main, ["demo", "--results", str(tmp_path), "--json"])
    assert (json.loads(result.stdout), result.stderr) == ({"finished": True}, "for people\n")


def test_a_failure_is_a_sentence_and_a_status(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise DemoFailedError("timed out")

    monkeypatch.setattr("ottla.cli.demo.demo_run.run", fail)
    result = CliRunner().invoke(main, ["demo"])
    assert result.exit_code == 1
    assert result.output == "Error: timed out\n"
