"""The brokers of a process as clients see them."""

import pytest

from ottla.broker.cluster.brokers import Brokers
from ottla.broker.cluster.node import Node
from ottla.broker.logs.partitions import Partitions
from ottla.core.config import BrokerConfig
from ottla.core.metadata.cluster_metadata import ClusterMetadata


@pytest.fixture
def metadata() -> ClusterMetadata:
    return ClusterMetadata((1, 2), BrokerConfig().text)


@pytest.fixture
def brokers(metadata: ClusterMetadata) -> Brokers:
    made = Brokers(metadata)
    for node_id in (1, 2):
        made.add(Node(node_id, cluster_metadata=metadata, partitions=Partitions.__new__(Partitions)))
    return made


def test_the_controller_is_the_first_that_runs(brokers: Brokers, metadata: ClusterMetadata) -> None:
    metadata.live_ids = {1, 2}
    assert brokers.controller_id == 1
    metadata.live_ids = {2}
    assert brokers.controller_id == 2
    metadata.live_ids = set()
    assert brokers.controller_id == -1


def test_where_a_broker_is(brokers: Brokers) -> None:
    brokers.nodes[2].host, brokers.nodes[2].port = "h", 9093
    assert brokers.endpoint(2) == (2, "h", 9093)
    assert brokers.endpoint(3) is None


def test_one_more_and_one_that_could_not_be_started(brokers: Brokers, metadata: ClusterMetadata) -> None:
    third = Node(3, cluster_metadata=metadata, partitions=Partitions.__new__(Partitions))
    brokers.add(third)
    assert metadata.broker_ids == (1, 2, 3)
    brokers.remove(third)
    assert (metadata.broker_ids, list(brokers.nodes)) == ((1, 2), [1, 2])
