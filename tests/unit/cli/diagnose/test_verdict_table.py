from datetime import UTC
from typing import Any

from ottla.cli.diagnose.verdict_table import WIDTH, verdict_table, wrapped
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE, Confidence, Verdict

DAY_MS = 86_400_000


def verdict(at_ms: int = 0, **fields: Any) -> Verdict:
    known = {
        "group": "orders",
        "generation": 7,
        "started_ms": at_ms,
        "ended_ms": None,
        "kind": REBALANCE,
        "cause": Cause.LEADER_REJOIN_SPURIOUS,
        "candidates": (),
        "confidence": Confidence.MEDIUM,
        "planned": False,
        "avoidable": True,
        "who": Identity("m", None, "a-client-with-a-very-long-name-indeed"),
    }
    return Verdict(**(known | fields))


def test_one_line_a_rebalance_and_one_a_day() -> None:
    lines = verdict_table([verdict(), verdict(DAY_MS, generation=None, planned=None, who=None, kind=AVOIDED)], zone=UTC)
    assert lines[0].split() == ["started", "gen", "cause", "sure", "planned", "avoidable", "who"]
    assert lines[1] == "1970-01-01"
    assert lines[2].split()[:6] == ["00:00:00", "7", "LEADER_REJOIN_SPURIOUS", "medium", "no", "yes"]
    assert lines[3] == "1970-01-02"
    assert lines[4].split() == ["00:00:00", "-", "LEADER_REJOIN_SPURIOUS", "medium", "?", "avoided", "-"]


def test_long_names_are_cut_to_the_width_of_a_terminal() -> None:
    lines = verdict_table([verdict(group="a-group-with-a-very-long-name-" * 3, generation=123_456), verdict(group="b")], zone=UTC)
    assert max(map(len, lines)) <= WIDTH
    assert "…" in lines[2]


def test_names_that_differ_at_the_end_are_shown_apart() -> None:
    lines = verdict_table([verdict(group="payments-europe-101"), verdict(group="payments-europe-102")], zone=UTC)
    assert [line.split()[1][-3:] for line in lines[2:]] == ["101", "102"]


def test_a_wide_terminal_shows_whole_names() -> None:
    lines = verdict_table([verdict(group="payments-europe-101"), verdict(group="b")], zone=UTC, width=120)
    assert "payments-europe-101" in lines[2]
    assert "a-client-with-a-very-long-name-indeed" in lines[2]


def test_names_of_strangers_control_no_terminal() -> None:
    lines = verdict_table([verdict(group="a\x1b[2J"), verdict(group="b\n")], zone=UTC)
    assert all(line.isprintable() for line in lines)


def test_sentences_are_wrapped() -> None:
    lines = list(wrapped("word " * 40))
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].startswith("- word")
    assert lines[1].startswith("  word")
