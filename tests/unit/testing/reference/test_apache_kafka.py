"""Apache Kafka as a child process: skipped where it cannot be had; goes on with its data and its port; says why when it does not start."""

from pathlib import Path
from typing import Any

import pytest

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.processes.java import ToolMissing
from ottla.testing.reference import maven
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
