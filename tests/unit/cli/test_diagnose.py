"""`ottla diagnose`: its run, its table and its options."""

import io
import json
import re
from datetime import UTC
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.cli.commands.diagnose import COMMAND
from ottla.cli.diagnose import DiagnoseOptions, SourceOptions, run, verdict_table
from ottla.cli.incident_screen import LINES, first_screen
from ottla.cli.text_tables import WIDTH, wrapped
from ottla.history.incidents import find_incidents
from ottla.history.processes import Identity
from ottla.history.sources.evidence import Cause
from ottla.history.verdicts.verdict import AVOIDED, REBALANCE, Confidence, Verdict

LOG = str(Path(__file__).parents[2] / "data" / "logs" / "apache-kafka-4.3.0.log")

LOGS = Path(__file__).parents[2] / "data" / "logs"
BROKER = str(LOGS / "apache-kafka-4.3.0.log")

DAY_MS = 86_400_000


def test_a_log_gives_verdicts() -> None:
    result = CliRunner().invoke(COMMAND, ["--broker-log", LOG, "--group", "java-coop", "--utc", "--json", "--rebalances"])
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
    status, out, err = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_rebalances=True)
    assert (status, err) == (0, "")
    assert "POLL_TIMEOUT" in out
    assert "\njava-classic\n- 13 rebalances" in out
    assert "What was read" in out
    assert max(map(len, out.splitlines())) <= 80


def test_incidents_fit_a_screen() -> None:
    status, out, err = diagnose(SourceOptions(broker_logs=[BROKER]))
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert len(lines) <= LINES
    assert max(map(len, lines)) <= WIDTH
    assert lines[0].split() == ["started", "incident", "group", "who", "rebalances", "part.-s", "planned", "sure"]
    assert any("slow consumer" in line and " j1 " in line and " no " in line for line in lines)
    assert any("broker outage" in line and "5 groups" in line and " broker " in line for line in lines)
    assert any(re.match(r"group stop: \d\d:\d\d ak-2 \(aiokafka\)$", line) for line in lines), "what has no line in the table is named"
    assert any(line.startswith("- group.instance.id for ") and "would have avoided" in line for line in lines)
    assert "--rebalances" in out


@pytest.mark.parametrize("count", [1, 16, 40, 60, 400])
@pytest.mark.parametrize("pause_ms", [60_000, DAY_MS])
def test_the_screen_names_each_incident_once_as_far_as_it_reaches(count: int, pause_ms: int) -> None:
    verdicts = [
        verdict(at * pause_ms, group="orders", cause=Cause.POLL_TIMEOUT, planned=at % 3 == 0, who=Identity(f"m{at}", None, f"orders-{at}x"))
        for at in range(count)
    ]
    screen = first_screen(find_incidents(verdicts), zone=UTC)
    assert len(screen.lines) <= LINES
    assert max(map(len, screen.lines)) <= WIDTH
    text = "\n".join(screen.lines)
    named = [at for at in range(count) if f"orders-{at}x" in text]
    assert all(text.count(f"orders-{at}x") == 1 for at in named)
    assert sorted(incident.started_ms // pause_ms for incident in screen.shown) == named
    more = re.search(r"and ([\d,]+) more, (\d+) of them planned", text)
    assert len(named) + (int(more[1]) if more else 0) == count
    assert count <= 40 or pause_ms == DAY_MS or more is None or count == 400, "sixty are named"
    longer = first_screen(find_incidents(verdicts), zone=UTC, height=2 * LINES)
    assert len(longer.lines) <= 2 * LINES
    assert len(longer.shown) > len(screen.shown) or len(screen.shown) == count, "a higher terminal shows more"


def test_the_option_prints_rebalances() -> None:
    result = CliRunner().invoke(COMMAND, ["--broker-log", LOG, "--rebalances", "--group", "java-classic"])
    assert "POLL_TIMEOUT" in result.stdout


def test_json_is_incidents_then_rebalances() -> None:
    _, out, _ = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True)
    lines = [json.loads(line) for line in out.splitlines()]
    incidents = [line for line in lines if line["kind"] == "incident"]
    assert lines[: len(incidents)] == incidents
    slow = next(each for each in incidents if each["incident"] == "slow consumer")
    assert (slow["groups"], slow["culprits"], slow["planned"], slow["confidence"]) == (["java-classic"], ["j1"], False, "high")
    assert slow["sentence"].startswith("Slow consumer: j1 in java-classic, 2026-11-22 22:54:35 for ")
    of_incidents = [tuple(each) for incident in incidents for each in incident["verdicts"]]
    rows = lines[len(incidents) :]
    assert sorted(of_incidents) == sorted((row["group"], row["generation"], row["started_ms"]) for row in rows)
    _, out, _ = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True, as_rebalances=True)
    assert [json.loads(line) for line in out.splitlines()] == rows


def test_json_of_rebalances_is_one_object_a_line() -> None:
    _, out, err = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True, as_rebalances=True)
    rows = [json.loads(line) for line in out.splitlines()]
    assert {row["group"] for row in rows} == {"java-classic"}
    assert [row["generation"] for row in rows] == list(range(1, 14))
    assert rows[1]["cause"] == "POLL_TIMEOUT"
    assert rows[1]["class"] == 2
    assert "lines were understood" in err


def test_only_rebalances_of_the_wanted_time() -> None:
    _, out, _ = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True, as_rebalances=True)
    rows = [json.loads(line) for line in out.splitlines()]
    since_ms, until_ms = rows[3]["started_ms"], rows[6]["started_ms"]
    only = {"since_ms": since_ms, "until_ms": until_ms}
    _, out, _ = diagnose(SourceOptions(broker_logs=[BROKER], groups=["java-classic"]), as_json=True, as_rebalances=True, **only)
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
