"""Apache Kafka's tools about logs against our broker: its consumer reads in a session, records are deleted, directories described."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.broker import Broker
from ottla.broker.fetch.messages import NO_SESSION
from ottla.broker.fetch.sessions import FetchSessions

pytestmark = pytest.mark.kafka

PARTITIONS, RECORDS = 3, 300


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """Our broker in this process with RECORDS records of 1,000 bytes in topic `t`, most of them in partition 0."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    with Broker(tmp_path_factory.mktemp("log-tools") / "data") as broker:
        servers = {"bootstrap.servers": broker.bootstrap_servers, "log_level": 0}
        admin = AdminClient(servers)
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(60)
        producer = Producer(servers)
        for number in range(RECORDS):
            producer.produce("t", b"%d " % number + b"x" * 1000, partition=number % 30 if number % 30 < PARTITIONS else 0)
        assert producer.flush(60) == 0
        yield broker


@pytest.mark.parametrize("isolation_level", ["read_uncommitted", "read_committed"])
def test_the_console_consumer_reads_all_in_a_session(
    broker: Broker, run_tool: Callable[..., str], isolation_level: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broker._task is not None
    created: list[int] = []
    create = FetchSessions.create
    monkeypatch.setattr(FetchSessions, "create", lambda *asked: created.append(create(*asked)) or created[-1])
    printed = run_tool(
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        *("--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--from-beginning", "--timeout-ms", "30000"),
        *("--max-messages", str(RECORDS)),
        *("--isolation-level", isolation_level, "--command-property", "max.partition.fetch.bytes=5000"),
    )
    assert sorted(int(line.split()[0]) for line in printed.splitlines() if line.endswith("x")) == list(range(RECORDS))
    assert any(session_id != NO_SESSION for session_id in created)
    assert len(broker._task.cluster.fetch_sessions[1]) == 0, "its last request ends its session"


def test_log_dirs_are_described(broker: Broker, run_tool: Callable[..., str]) -> None:
    printed = run_tool(
        *("org.apache.kafka.tools.LogDirsCommand", "--bootstrap-server", broker.bootstrap_servers, "--describe", "--topic-list", "t")
    )
    described = json.loads(printed[printed.index("{") : printed.rindex("}") + 1])
    assert broker._data_dir is not None
    (log_dir,) = described["brokers"][0]["logDirs"]
    assert (log_dir["error"], log_dir["logDir"]) == (None, str(Path(broker._data_dir).absolute()))
    sizes = {part["partition"]: part["size"] for part in log_dir["partitions"]}
    assert sorted(sizes) == ["t-0", "t-1", "t-2"]
    assert sizes["t-0"] == sum(path.stat().st_size for path in (Path(broker._data_dir) / "t-0").glob("*.log"))


def test_records_are_deleted(broker: Broker, run_tool: Callable[..., str], tmp_path: Path) -> None:
    plan = {"partitions": [{"topic": "t", "partition": 1, "offset": 4}, {"topic": "t", "partition": 2, "offset": -1}], "version": 1}
    (tmp_path / "plan.json").write_text(json.dumps(plan))
    printed = run_tool(
        "org.apache.kafka.tools.DeleteRecordsCommand",
        *("--bootstrap-server", broker.bootstrap_servers, "--offset-json-file", str(tmp_path / "plan.json")),
    )
    assert "partition: t-1\tlow_watermark: 4" in printed
    shell = ("org.apache.kafka.tools.GetOffsetShell", "--bootstrap-server", broker.bootstrap_servers, "--topic", "t", "--time")
    assert {"t:1:4", "t:2:10"} <= set(run_tool(*shell, "earliest").split())
    assert {"t:1:10", "t:2:10"} <= set(run_tool(*shell, "latest").split())
