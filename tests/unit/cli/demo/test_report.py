"""The last pages fit 100 columns, and a difference of counts is not to be overlooked."""

import io
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ottla.cli.demo.report import show_airlines, show_rebalances, show_results, show_work

WIDTH = 100


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def console(out: io.StringIO) -> Console:
    return Console(file=out, width=WIDTH)


def test_the_table_shows_every_figure_whole(console: Console, out: io.StringIO, rebalance: Mapping[str, Any]) -> None:
    row = {
        **rebalance,
        "started_at": datetime(2026, 1, 2, 3, 4, 5),
        "coalesced": ["METADATA_UPDATE"],
        "join_ms": 123_456,
        "generation": 100,
    }
    show_rebalances(console, [row, {**row, "planned": None, "generation": None, "outcome": "superseded", "sync_ms": None}])
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "…" not in out.getvalue()
    assert "100  03:04:05  EXPIRE_HEARTBEAT  consumer-2  3 → 2    " in out.getvalue()
    assert any("+METADATA_UPDATE" in line for line in lines)
    assert any(line.startswith("100  consumer-2 sent no heartbeats") for line in lines)


def test_counts_that_differ_are_shown(console: Console, out: io.StringIO) -> None:
    show_airlines(console, {"UA": "United", "AA": "American"}, {"UA": 2, "AA": 1_000}, {"UA": 2, "AA": 1_001, "HA": 1})
    text = " ".join(out.getvalue().split())
    assert "UA United 2 yes" in text
    assert "AA American 1,000 no: 1,001" in text
    assert "HA ? 0 no: 1" in text
    assert "all 1,002 no: 1,004" in text


def test_work_that_was_done_twice_is_counted(console: Console, out: io.StringIO) -> None:
    show_work(console, {"a": {"flights": 60, "commits_refused": 1}, "b": {"flights": 50, "commits_refused": 2}}, 100)
    text = " ".join(out.getvalue().split())
    assert "all 100 flights (a: 60, b: 50)" in text
    assert "10 were worked on more than once and 3 commits were refused" in text


def test_the_end_says_where_the_results_lie(console: Console, out: io.StringIO) -> None:
    show_results(console, Path("demo-results"), 61.2)
    assert "Done in 61 s." in out.getvalue()
    assert "demo-results/" in out.getvalue()
    assert "ottla broker --data demo-results/broker" in out.getvalue()
    assert max(map(len, out.getvalue().splitlines())) <= WIDTH
