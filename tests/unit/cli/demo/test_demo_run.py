"""From end to end with the day left out: what is written, and what counts as a failure. The whole: tests/spark/test_demo.py."""

import io
import json
import sys
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.analysis import LagRow
from ottla.cli.demo.demo_run import Findings, run
from ottla.cli.demo.results import Results
from ottla.extras import MissingExtraError


@pytest.fixture
def day(monkeypatch: pytest.MonkeyPatch, flights_data: Path, rebalance: Mapping[str, Any]) -> Callable[[dict[str, int]], None]:
    """`day(counts)`: a day without processes, after which Spark counts so many flights."""

    def prepare(counts: dict[str, int]) -> None:
        def play(_display: Any, results: Results, *_: Any) -> Any:
            for name in ("consumer-1", "consumer-2", "consumer-3"):
                results.consumer_summary(name).write_text(json.dumps({"flights": 1, "commits_refused": 0, "by_airline": {}}))
            rows = [{**rebalance, "started_at": datetime(2026, 1, 2, 3, 4, 5)}]
            return Findings(events=[], rebalances=rows, lag=[LagRow(7, 1_500, 40)], flights=counts, starts_ms=1_000, released_ms=2_000)

        monkeypatch.setattr("ottla.cli.demo.demo_run._day", play)
        monkeypatch.setattr("ottla.cli.demo.demo_run.require_java", lambda: None)
        monkeypatch.setattr("ottla.cli.demo.demo_run.data_directory", lambda: flights_data)

    return prepare


def test_equal_counts_are_success(day: Callable[[dict[str, int]], None], tmp_path: Path) -> None:
    day({"UA": 2, "AA": 1})
    out = io.StringIO()
    run(tmp_path / "results", console=Console(file=out, width=100))
    summary = json.loads((tmp_path / "results" / "summary.json").read_text())
    assert summary["finished"]
    assert summary["counts_are_those_of_the_input"]
    assert summary["rebalances"][0]["started_at"].endswith("+00:00")
    assert summary["lag"] == {"starts_ms": 1_000, "ends_ms": 2_000, "greatest_lag": 40, "its_partition": 7, "at_ms": 1_500}
    assert "How far behind the group was" in out.getvalue()
    assert "Done in" in out.getvalue()


def test_other_counts_are_a_failure(day: Callable[[dict[str, int]], None], tmp_path: Path) -> None:
    day({"UA": 2, "AA": 2})
    out = io.StringIO()
    with pytest.raises(DemoFailedError, match="not those of the input"):
        run(tmp_path / "results", console=Console(file=out, width=100))
    assert not json.loads((tmp_path / "results" / "summary.json").read_text())["counts_are_those_of_the_input"]
    assert "no: 1" in out.getvalue()
    assert "Done in" not in out.getvalue()


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(MissingExtraError, match=r'^pyspark is not installed: pip install "ottla\[demo\]"$'):
        run(tmp_path / "results", console=Console(file=io.StringIO()))
    assert not (tmp_path / "results").exists()
