"""`ottla report`: options, the lag table, and where the page goes."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer, Producer

from ottla.broker import Broker
from ottla.cli.diagnose import SourceOptions
from ottla.cli.main import main
from ottla.cli.report import LagTableError, ReportOptions, read_lag_table, run, write_report
from ottla.console.report.report import Report
from ottla.history.story.rebalances import StoryRebalance
from ottla.history.story.stories import StoryOptions
from ottla.history.story.story import story
from ottla.protocol.model import TopicPartition


@pytest.fixture(scope="module")
def servers() -> Iterator[str]:
    """A broker whose two groups have had a member each."""
    with Broker() as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers}
        producer = Producer(servers)
        producer.produce("orders", b"one")
        producer.flush()
        for group in ("a", "b"):
            consumer = Consumer({**servers, "group.id": group, "client.id": f"{group}-1", "auto.offset.reset": "earliest"})
            consumer.subscribe(["orders"])
            assert consumer.poll(10) is not None
            consumer.close()
        yield broker.bootstrap_servers


def test_a_page_of_all_groups_is_written(servers: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--output", str(path)])
    assert ran.exit_code == 0, ran.output
    assert 'data-group="a"' in path.read_text()
    assert 'data-group="b"' in path.read_text()


def test_one_group_as_json(servers: str) -> None:
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--group", "b", "--format", "json"])
    assert ran.exit_code == 0, ran.output
    [story] = json.loads(ran.stdout)["stories"]
    assert CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--group", "b", "--json"]).exit_code == 0
    assert [member["name"] for member in story["members"]] == ["b-1"]


def test_names_can_be_replaced(servers: str, tmp_path: Path) -> None:
    path = tmp_path / "out.html"
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--anonymise", "--output", str(path)])
    assert ran.exit_code == 0, ran.output
    assert 'data-group="group-1"' in path.read_text()
    assert servers not in path.read_text()


def test_a_group_without_events_is_an_error_with_a_sentence(servers: str) -> None:
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", servers, "--group", "zzz"])
    assert ran.exit_code == 1
    assert ran.output.startswith("Error: no evidence of zzz was found.")


def test_what_cannot_be_understood_is_said() -> None:
    ran = CliRunner().invoke(main, ["report", "--bootstrap-server", "nonsense"])
    assert ran.exit_code == 1
    assert ran.output.startswith("Error: ")
    ran = CliRunner().invoke(main, ["report", "--since", "yesterdayish"])
    assert ran.exit_code == 2
    assert "is no time" in ran.output
    assert CliRunner().invoke(main, ["report"]).output.startswith("Error: nothing to read: give --bootstrap-server")


def write(path: Path, rows: list[tuple[str, int, int, int | None]]) -> None:
    """A table of (group, partition, at in milliseconds, lag)."""
    columns = {
        "group": [row[0] for row in rows],
        "topic": ["t"] * len(rows),
        "partition": pa.array([row[1] for row in rows], pa.int32()),
        "at": pa.array([datetime.fromtimestamp(row[2] / 1_000, UTC) for row in rows], pa.timestamp("us", "UTC")),
        "lag": pa.array([row[3] for row in rows], pa.int64()),
    }
    pq.write_table(pa.table(columns), path / "part-0.parquet")


def test_each_step_has_its_greatest_lag_and_keeps_the_last_known_one(tmp_path: Path) -> None:
    write(tmp_path, [("g", 0, 1_000, None), ("g", 0, 1_300, 9), ("g", 0, 1_400, 4), ("g", 0, 2_000, 0), ("g", 1, 1_900, 5), ("h", 0, 0, 1)])
    found = read_lag_table(tmp_path)
    assert (found["g"].from_ms, found["g"].step_ms) == (1_000, 250)
    assert found["g"].rows == {TopicPartition("t", 0): [-1, 9, 9, 9, 0], TopicPartition("t", 1): [-1, -1, -1, 5, 5]}
    assert found["h"].rows == {TopicPartition("t", 0): [1]}


def test_a_day_has_a_sample_a_minute(tmp_path: Path) -> None:
    write(tmp_path, [("g", 0, 0, 1), ("g", 0, 86_399_000, 2)])
    history = read_lag_table(tmp_path)["g"]
    assert (history.step_ms, len(history.rows[TopicPartition("t", 0)])) == (60_000, 1_440)


def test_something_else_is_refused_with_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(LagTableError, match="is no table lag_history"):
        read_lag_table(tmp_path / "missing")
    pq.write_table(pa.table({"group": ["g"]}), tmp_path / "part-0.parquet")
    with pytest.raises(LagTableError, match="is no table lag_history"):
        read_lag_table(tmp_path)


REPORT = Report((story("orders \ud800", [], [StoryRebalance(started_ms=1, sentence="w1 came back.")]),))


def test_a_page_goes_into_a_file_and_the_sentences_to_stdout(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "report.html"
    write_report(REPORT, output=str(path), output_format="html")
    assert path.read_text("utf-8").startswith("<!doctype html>")
    printed = capsys.readouterr()
    assert "w1 came back." in printed.out
    assert f"{path}: {path.stat().st_size:,} bytes" in printed.err


def test_json_goes_to_stdout_alone(capsys: pytest.CaptureFixture[str]) -> None:
    write_report(Report(()), output="-", output_format="json")
    assert json.loads(capsys.readouterr().out) == {"incidents": [], "stories": []}


def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(click.ClickException, match=r"cannot be written: No such file"):
        write_report(REPORT, output=str(tmp_path / "none" / "r.html"), output_format="html")


LINES = """\
[2026-11-22 14:31:00,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] Preparing to rebalance group orders in state \
PreparingRebalance with old generation 4 (reason: removing member w1-6b0e1c1e-6f6c-4a39-9d2a-1c1f7f6c2a11 on heartbeat expiration.). \
(org.apache.kafka.coordinator.group.GroupMetadataManager)
[2026-11-22 14:31:01,000] INFO [GroupCoordinator id=1 topic=__consumer_offsets partition=7] Stabilized group orders generation 5 with 2 \
members. (org.apache.kafka.coordinator.group.GroupMetadataManager)
"""


def options(tmp_path: Path, *logs: str, lag: Path | None = None, groups: tuple[str, ...] = ()) -> ReportOptions:
    return ReportOptions(
        sources=SourceOptions(broker_logs=logs, groups=groups),
        stories=StoryOptions(groups=groups),
        lag_history=lag,
        output=str(tmp_path / "out.html"),
        output_format="html",
    )


def test_a_brokers_log_is_enough(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "server.log"
    log.write_text(LINES)
    run(options(tmp_path, str(log)), zone=UTC)
    page = (tmp_path / "out.html").read_text()
    assert "EXPIRE_HEARTBEAT" in page
    assert "server.log" in page
    assert "sent no heartbeat" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("logs", "lag", "groups", "sentence"),
    [
        ((), None, (), "nothing to read"),
        (("missing.log",), None, (), "no such file"),
        (("server.log",), "missing", (), "is no table lag_history"),
        (("server.log",), None, ("zzz",), "no evidence of zzz was found"),
    ],
)
def test_what_cannot_be_read_is_a_sentence(
    tmp_path: Path, logs: tuple[str, ...], lag: str | None, groups: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "server.log").write_text(LINES)
    given = options(tmp_path, *(str(tmp_path / log) for log in logs), lag=lag and tmp_path / lag, groups=groups)
    with pytest.raises(click.ClickException, match=sentence):
        run(given, zone=UTC)
