"""Apache Kafka as a child process: skipped where it cannot be had; goes on with its data and its port; says why when it does not start."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.processes.java import ToolMissing
from ottla.testing.reference import apache_kafka, maven
from ottla.testing.reference.apache_kafka import ApacheKafka, StartFailed, answers


@pytest.mark.kafka
def test_it_goes_on_where_it_was_killed(reference: Any) -> None:
    broker = reference.own({"num.partitions": "3"})
    with RawClient(broker.bootstrap_servers) as client:
        topic = {"name": "flights", "num_partitions": -1, "replication_factor": -1}
        (made,) = client.call(ApiKey.CREATE_TOPICS, 5, timeout=5000, topics=[topic]).topics
        assert (made.error_code, made.num_partitions) == (0, 3), "the setting has arrived"
    first = broker.bootstrap_servers
    assert "started" in broker.log_path.read_text()
    broker.kill()
    assert not answers(first)
    broker.start()
    assert broker.bootstrap_servers == first
    with RawClient(broker.bootstrap_servers) as client:
        assert "flights" in {each.name for each in client.call(ApiKey.METADATA, 1, topics=None).topics}
    broker.stop()
    assert not answers(first)
    reference.end_own()


@pytest.mark.kafka
def test_a_mistake_is_shown(reference: Any) -> None:
    with pytest.raises(StartFailed, match=r"num\.partitions"):
        reference.own({"num.partitions": "many"})


@pytest.fixture
def starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ApacheKafka]:
    """Makes a node whose JVM is a shell script: it has the log's path in $LOG, the number of starts so far in $COUNT."""
    monkeypatch.setattr(apache_kafka, "fetch_jars", lambda *_, **__: [])
    monkeypatch.setattr(apache_kafka, "find_java", lambda: Path("java"))
    monkeypatch.setattr(ApacheKafka, "_format", lambda *_: None)

    def make(script: str) -> ApacheKafka:
        broker = ApacheKafka(tmp_path / "data", cache_dir=tmp_path)
        count = f'COUNT=$(cat "{tmp_path}/count" || echo 0); echo $((COUNT + 1)) > "{tmp_path}/count"; LOG={broker.log_path}; '
        monkeypatch.setattr(broker, "java_command", lambda *_: ["sh", "-c", count + script])
        return broker

    return make


LONG_STOP = 'for each in $(seq 100); do echo "[now] INFO Stopped part $each (Kafka)" >> $LOG; done; exit 1'


def test_a_port_that_another_process_took_is_given_up(starts: Callable[[str], ApacheKafka], monkeypatch: pytest.MonkeyPatch) -> None:
    broker = starts(
        'if [ $COUNT = 0 ]; then echo "[now] ERROR failed to bind: Address already in use." >> $LOG; ' + LONG_STOP + "; fi; sleep 60"
    )
    ports: list[str] = []

    def answers_at_another(servers: str) -> bool:
        if servers not in ports:
            ports.append(servers)
        return len(ports) == 2

    monkeypatch.setattr(apache_kafka, "answers", answers_at_another)
    broker.start()
    assert broker.bootstrap_servers == ports[1] != ports[0]
    broker.kill()


def test_a_start_that_failed_says_its_error_first_and_leaves_no_ports(
    starts: Callable[[str], ApacheKafka], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(apache_kafka, "answers", lambda _: False)
    broker = starts('echo "[now] ERROR Exiting Kafka: no space (Kafka)" >> $LOG; echo killed; ' + LONG_STOP)
    with pytest.raises(StartFailed, match=r"did not start:\n\[now\] ERROR Exiting Kafka: no space(.|\n)*Stopped part 100"):
        broker.start()
    assert not (broker.data_dir / "server.properties").exists(), "the next start chooses ports again"


def test_without_maven_it_says_so_before_anything_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    java = tmp_path / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.touch()
    (tmp_path / "java" / "release").write_text('JAVA_VERSION="17"\n')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
    monkeypatch.setattr(maven.shutil, "which", lambda program: None)
    with pytest.raises(ToolMissing, match="needs Maven"):
        ApacheKafka(tmp_path / "data", cache_dir=tmp_path / "cache", report=lambda _: None)
    assert not (tmp_path / "data").exists()


def test_nothing_answers_at_a_closed_port() -> None:
    assert not answers("127.0.0.1:1")
