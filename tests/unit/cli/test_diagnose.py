"""`ottla diagnose`: its run, its table and its options."""

import io
import json
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.commands.diagnose import COMMAND
from ottla.cli.diagnose import WIDTH, DiagnoseOptions, SourceOptions, run, verdict_table, wrapped
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE, Confidence, Verdict

LOG = str(Path(__file__).parents[2] / "data" / "logs" / "apache-kafka-4.3.0.log")

LOGS = Path(__file__).parents[2] / "data" / "logs"
BROKER = str(LOGS / "apache-kafka-4.3.0.log")

DAY_MS = 86_400_000


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


def diagnose(options: SourceOptions, **more: Any) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    status = run(DiagnoseOptions(sources=options, **more), zone=UTC, out=out, err=err)
    return status, out.getvalue(), err.getvalue()


def test_a_table_then_sentences_then_what_was_read() -> None:
    status, out, err = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]))
    assert (status, err) == (0, "")
    assert "POLL_TIMEOUT" in out
    assert "\njava-classic\n- 13 rebalances" in out
    assert "What was read" in out
    assert max(map(len, out.splitlines())) <= 80


def test_json_is_one_object_a_line() -> None:
    _, out, err = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True)
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["group"] for row in rows} == {"java-classic"}
    assert [row["generation"] for row in rows] == list(range(1, 14))
    assert rows[1]["cause"] == "POLL_TIMEOUT"
    assert rows[1]["class"] == 2
    assert "lines were understood" in err


def test_only_rebalances_of_the_wanted_time() -> None:
    _, out, _ = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True)
    rows = [json.loads(line) for line in out.splitlines()]
    since_ms, until_ms = rows[3]["started_ms"], rows[6]["started_ms"]
    _, out, _ = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True, since_ms=since_ms, until_ms=until_ms)
    assert [json.loads(line)["generation"] for line in out.splitlines()] == [4, 5, 6]


def test_without_evidence_it_says_what_to_give(tmp_path: Path) -> None:
    assert "--broker-log FILE" in diagnose(SourceOptions())[2]
    (tmp_path / "empty.log").touch()
    status, _, err = diagnose(SourceOptions(broker_logs=[str(tmp_path / "empty.log")]))
    assert (status, "No evidence" in err) == (1, True)
    status, _, err = diagnose(SourceOptions(broker_logs=[BROKER], groups=["absent"]))
    assert (status, "No evidence" in err) == (1, True)
    status, _, err = diagnose(SourceOptions(broker_logs=[str(tmp_path / "missing.log")]))
    assert (status, "no such file" in err) == (1, True)
    status, _, err = diagnose(SourceOptions(bootstrap_server="nowhere"))
    assert (status, err.startswith("Error: ")) == (1, True)


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
