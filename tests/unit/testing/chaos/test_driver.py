"""A few seconds of chaos: what the driver does is counted, and it leaves nothing behind."""

from pathlib import Path

from ottla.broker import Cluster
from ottla.testing.chaos.driver import PARTITIONS, SETTINGS, TOPIC, Chaos
from ottla.testing.raw_client import RawClient


def test_it_starts_consumers_and_moves_coordinators(tmp_path: Path) -> None:
    with Cluster(brokers=2, config={**SETTINGS, "default.replication.factor": "2"}) as cluster:
        with RawClient(cluster.address(1)) as client:
            topic = {"name": TOPIC, "num_partitions": PARTITIONS, "replication_factor": 2}
            assert client.call(19, 5, topics=[topic]).topics[0].error_code == 0
        chaos = Chaos(cluster, 3, tmp_path)
        try:
            chaos.run(2)
            running = [consumer.process for consumer in chaos._running]
        finally:
            chaos.close()
    assert chaos.acts["move_coordinator"] >= 1
    assert running
    assert not any(process.is_running for process in running)
    assert chaos.produced
