"""What the demo prints of rebalances, and its page."""

import io
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ottla.cli.demo.analysis import LagRow
from ottla.cli.demo.report import lag_history, report_page, sentence, show_airlines, show_rebalances, show_results, show_work, verdict_text
from ottla.groups.events import GroupEvent
from ottla.history.group_history import Rebalance
from ottla.history.verdicts.verdict import Confidence
from ottla.protocol.model import TopicPartition


def test_a_lost_member(rebalances: Sequence[Rebalance]) -> None:
    assert sentence(rebalances[1]) == (
        "consumer-2 sent no heartbeat for 6.1 s (its session is 6.0 s) and was removed. Not planned. 392 ms, 1 of 2 partitions moved."
    )


def test_doubt_is_said(rebalances: Sequence[Rebalance]) -> None:
    verdict = rebalances[1].verdict
    assert verdict_text(replace(verdict, confidence=Confidence.LOW)) == "not planned, low confidence"
    assert verdict_text(replace(verdict, planned=True, confidence=Confidence.MEDIUM)) == "planned, medium confidence"
    assert verdict_text(replace(verdict, planned=None, confidence=Confidence.LOW)) == "planned or not is unknown"


@pytest.mark.parametrize(
    ("outcome", "words"), [("emptied", "No member is left."), ("superseded", "No assignments were made (superseded).")]
)
def test_a_rebalance_without_an_assignment_costs_no_partitions(rebalances: Sequence[Rebalance], outcome: str, words: str) -> None:
    assert sentence(replace(rebalances[1], outcome=outcome)).endswith(words)


def test_the_greatest_lag_of_each_quarter_of_a_second_is_kept() -> None:
    rows = [LagRow(0, 1_000, 5), LagRow(0, 1_010, 9), LagRow(0, 1_600, 0), LagRow(1, 1_300, None)]
    history = lag_history(rows)
    assert (history.from_ms, history.step_ms) == (1_000, 250)
    assert history.rows[TopicPartition("flights", 0)] == [9, 9, 9]
    assert history.rows[TopicPartition("flights", 1)] == [-1, -1, -1]


def test_the_page_is_of_the_demos_group_alone() -> None:
    def emptied(group: str) -> GroupEvent:
        return GroupEvent(at_ms=1, group=group, kind="emptied", generation=2, state_from="Stable", state_to="Empty")

    page = report_page([emptied("flight-desk"), emptied("demo-watch")], [])
    assert 'data-group="flight-desk"' in page
    assert "demo-watch" not in page


WIDTH = 100


@pytest.fixture
def out() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def console(out: io.StringIO) -> Console:
    return Console(file=out, width=WIDTH)


def test_the_table_shows_every_figure_whole(
    console: Console, out: io.StringIO, rebalance: Mapping[str, Any], rebalances: list[Rebalance]
) -> None:
    row = {
        **rebalance,
        "started_at": datetime(2026, 1, 2, 3, 4, 5),
        "coalesced": ["METADATA_UPDATE"],
        "join_ms": 123_456,
        "generation": 100,
    }
    show_rebalances(console, [row, {**row, "planned": None, "generation": None, "outcome": "superseded", "sync_ms": None}], rebalances)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "…" not in out.getvalue()
    assert "100  03:04:05  EXPIRE_HEARTBEAT  consumer-2  3 → 2    " in out.getvalue()
    assert any("+METADATA_UPDATE" in line for line in lines)
    assert any(line.startswith("  2  consumer-2 sent no heartbeat for 6.1 s") for line in lines)


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
