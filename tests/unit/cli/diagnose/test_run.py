import io
import json
from datetime import UTC
from pathlib import Path
from typing import Any

from ottla.cli.diagnose.run import DiagnoseOptions, run
from ottla.cli.diagnose.sources import SourceOptions

LOGS = Path(__file__).parents[3] / "data" / "logs"
BROKER = str(LOGS / "apache-kafka-4.3.0.log")


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
