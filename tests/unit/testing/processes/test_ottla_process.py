"""Our broker as a child process: it is ready when `start` returns, keeps its port, and says why when it cannot start."""

from pathlib import Path

import pytest

from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import RawClient
from ottla.testing.processes.ottla_process import OttlaProcess, StartFailed


def topics(broker: OttlaProcess) -> set[str]:
    with RawClient(broker.bootstrap_servers) as client:
        return {each.name for each in client.call(ApiKey.METADATA, 1, topics=None).topics}


def test_it_goes_on_where_it_was_killed(tmp_path: Path) -> None:
    broker = OttlaProcess(tmp_path / "data", config={"num.partitions": "3"})
    broker.start()
    with RawClient(broker.bootstrap_servers) as client:
        topic = {"name": "flights", "num_partitions": -1, "replication_factor": -1}
        (made,) = client.call(ApiKey.CREATE_TOPICS, 5, timeout=5000, topics=[topic]).topics
        assert (made.error_code, made.num_partitions) == (0, 3), "the setting has arrived"
    first = broker.bootstrap_servers
    broker.kill()
    broker.start()
    assert broker.bootstrap_servers == first
    assert "flights" in topics(broker)
    broker.stop()
    broker.stop()


def test_a_mistake_is_shown(tmp_path: Path) -> None:
    broker = OttlaProcess(tmp_path / "data", config={"num.partitions": "many"})
    with pytest.raises(StartFailed, match=r"num\.partitions"):
        broker.start()
