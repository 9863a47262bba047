"""A few seconds of chaos: what the driver does is counted, and it leaves nothing behind."""

from pathlib import Path

from ottla.broker import Cluster
from ottla.testing.chaos.driver import PARTITIONS, SETTINGS, TOPIC, Chaos
from ottla.testing.clients.topics import create_topic


def test_it_starts_consumers_and_moves_coordinators(tmp_path: Path) -> None:
    with Cluster(brokers=2, config={**SETTINGS, "default.replication.factor": "2"}) as cluster:
        create_topic(cluster.address(1), TOPIC, PARTITIONS, replicas=2)
        chaos = Chaos(cluster, 3, tmp_path)
        try:
            chaos.run(2)
            running = [consumer.process for consumer in chaos.members.running]
        finally:
            chaos.members.close()
    assert chaos.acts["move_coordinator"] >= 1
    assert running
    assert not any(process.is_running for process in running)
    assert chaos.ledger.produced
