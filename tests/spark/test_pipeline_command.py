"""`ottla pipeline run` on a broker with groups: a batch that replaces, a stream that continues, the same tables from both."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.client.admin.client import AdminClient
from ottla.protocol.model import TopicPartition
from ottla.spark.runner.tables import Tables
from ottla.spark.schemas import LAG, LAG_HISTORY, OFFSET_COMMITS

RECORDS = 30


@pytest.fixture
def servers(session_of_commands: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A broker with the topic `t` of one partition, and commands that use the tests' session."""
    from confluent_kafka import Producer

    monkeypatch.setattr("signal.signal", lambda *_arguments: None)
    with Broker() as broker:
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for number in range(RECORDS):
            producer.produce("t", b"%d" % number, partition=0)
        assert producer.flush(60) == 0
        yield broker.bootstrap_servers


def commit(servers: str, **offsets: int) -> None:
    with AdminClient(servers) as admin:
        for group, offset in offsets.items():
            assert admin.commit(group, {TopicPartition("t", 0): offset}) == {TopicPartition("t", 0): None}


def invoke(servers: str, name: str, output: Path, *more: str) -> Any:
    return CliRunner().invoke(main, ["pipeline", "run", name, "--bootstrap-server", servers, "--output", str(output), *more])


def test_a_batch_replaces_and_a_stream_continues(spark: Any, servers: str, tmp_path: Path) -> None:
    missing = invoke(servers, "lag", tmp_path / "x")
    assert (missing.exit_code, missing.output) == (
        1,
        "Error: there is no topic __consumer_offsets: no group has ever committed on this cluster\n",
    )
    stream, batch = tmp_path / "stream", tmp_path / "batch"

    def lags(directory: Path) -> set[tuple[str, int, int]]:
        found = Tables(spark, str(directory)).read("lag", LAG).collect()
        return {(row["group"], row["committed_offset"], row["lag"]) for row in found}

    commit(servers, a=10, b=20)
    first = invoke(servers, "lag", stream, "--available-now", "--topic", "t", "--json")
    assert first.exit_code == 0, first.output
    assert json.loads(first.stdout)["tables"]["lag"] == {"path": f"{stream}/lag", "rows": 2}
    assert lags(stream) == {("a", 10, 20), ("b", 20, 10)}
    commit(servers, a=25)
    again = invoke(servers, "lag", stream, "--available-now", "--topic", "t", "--json")
    assert again.exit_code == 0, again.output
    assert lags(stream) == {("a", 25, 5), ("b", 20, 10)}
    commits = Tables(spark, str(stream)).read("lag_commits", OFFSET_COMMITS)
    assert sorted((row["group"], row["committed_offset"]) for row in commits.collect()) == [("a", 10), ("a", 25), ("b", 20)]
    history = Tables(spark, str(stream)).read("lag_history", LAG_HISTORY).where("event = 'end' AND `group` = 'a'").orderBy("at").collect()
    assert [(row["committed_offset"], row["lag"]) for row in history if row["lag"] is not None] == [(10, 20), (25, 5)]
    from_records = [row["end_offset"] for row in history if row["lag"] is None]
    assert from_records[-1:] == [RECORDS]
    assert len(from_records) == len(set(from_records)), "the topic was read twice, and its records count once"

    done = invoke(servers, "lag", batch, "--group", "a", "--topic", "t")
    assert done.exit_code == 0, done.output
    assert lags(batch) == {("a", 25, 5)}
    lines = done.output.splitlines()
    assert lines[0].split() == ["group", "topic", "partitions", "lag", "worst", "beyond", "age", "s", "last", "commit"]
    assert lines[2].split()[:6] == ["a", "t", "1", "5", "0:", "5"]
    assert max(map(len, lines[:3])) <= 80
    history = Tables(spark, str(batch)).read("lag_history", LAG_HISTORY)
    assert {(row["event"], row["lag"]) for row in history.where("event = 'commit'").collect()} == {("commit", 20), ("commit", 5)}
