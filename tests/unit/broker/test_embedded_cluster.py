"""Several embedded brokers: each listens, one can go and come back, and data opened again finds its leaders."""

import socket
from pathlib import Path

import pytest

from ottla.broker import Broker, Cluster
from ottla.core.config import ConfigError
from ottla.core.errors import StorageError
from ottla.core.wire.api_keys import ApiKey
from ottla.testing.clients.raw_client import Disconnected, RawClient
from ottla.testing.clients.topics import create_topic
from ottla.testing.processes.ports import free_ports


def brokers_in_metadata(address: str) -> dict[int, str]:
    with RawClient(address) as client:
        return {each.node_id: f"{each.host}:{each.port}" for each in client.call(ApiKey.METADATA, 1, topics=[]).brokers}


def is_open(address: str) -> bool:
    host, port = address.split(":")
    try:
        socket.create_connection((host, int(port)), timeout=60).close()
    except ConnectionRefusedError:
        return False
    return True


def test_each_broker_listens_and_names_the_others() -> None:
    with Cluster(brokers=3) as cluster:
        addresses = cluster.bootstrap_servers.split(",")
        assert cluster.brokers == cluster.live_brokers == (1, 2, 3)
        assert [cluster.address(broker) for broker in (1, 2, 3)] == addresses
        for address in addresses:
            assert brokers_in_metadata(address) == dict(zip((1, 2, 3), addresses, strict=True))


def test_ids_begin_with_the_node_id_and_ports_follow_each_other() -> None:
    port, *_ = free_ports(3)
    with Cluster(brokers=3, config={"node.id": "7"}, listen=f"127.0.0.1:{port}") as cluster:
        assert cluster.brokers == (7, 8, 9)
        assert cluster.bootstrap_servers == ",".join(f"127.0.0.1:{port + number}" for number in range(3))


def test_a_broker_goes_and_comes_back_on_its_port() -> None:
    with Cluster(brokers=3) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 3, replicas=2)
        create_topic(cluster.bootstrap_servers, "single", 3, replicas=1)
        second = cluster.address(2)
        with RawClient(second) as connected:
            cluster.stop_broker(2)
            with pytest.raises((Disconnected, ConnectionError)):
                connected.call(ApiKey.METADATA, 1, topics=[])
        assert not is_open(second)
        assert cluster.live_brokers == (1, 3)
        assert second not in cluster.bootstrap_servers
        assert [cluster.leader("t", number) for number in range(3)] == [1, 3, 3]
        assert [cluster.leader("single", number) for number in range(3)] == [1, None, 3]
        cluster.stop_broker(2)  # it is stopped already
        cluster.start_broker(2)
        cluster.start_broker(2)
        assert cluster.address(2) == second
        assert is_open(second)
        assert [cluster.leader("single", number) for number in range(3)] == [1, 2, 3]


def test_the_last_broker_cannot_be_stopped_alone() -> None:
    with Cluster(brokers=2) as cluster:
        cluster.stop_broker(1)
        with pytest.raises(ConfigError, match="the last one that runs"):
            cluster.stop_broker(2)


def test_a_broker_is_added() -> None:
    with Cluster(brokers=1) as cluster:
        create_topic(cluster.bootstrap_servers, "before", 2, replicas=1)
        assert cluster.add_broker() == 2
        create_topic(cluster.bootstrap_servers, "after", 2, replicas=2)
        assert [cluster.leader("before", number) for number in range(2)] == [1, 1]
        assert [cluster.leader("after", number) for number in range(2)] == [1, 2]
        cluster.move_leader("before", 0, to=2)
        assert cluster.leader("before", 0) == 2


def test_leaders_and_groups_can_be_moved_where_that_can_be() -> None:
    with Cluster(brokers=2) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 1, replicas=1)
        for partition, words in ((0, "no broker 5"), (1, "no partition t-1")):
            with pytest.raises(ConfigError, match=words):
                cluster.move_leader("t", partition, to=5)
        with pytest.raises(ConfigError, match="no partition other-0"):
            cluster.leader("other", 0)


def test_where_a_group_is_coordinated_and_moved_to() -> None:
    with Cluster(brokers=3) as cluster:
        place = cluster.coordinator("test-group")
        assert (place.hash, place.partition, place.broker_id) == (627841412, 12, 12 % 3 + 1)
        assert place.address == cluster.address(1)
        cluster.move_coordinator("test-group", to=3)
        assert cluster.coordinator("test-group").broker_id == 3
        assert cluster.leader("__consumer_offsets", 12) == 3


def test_what_was_moved_is_there_after_a_restart(tmp_path: Path) -> None:
    with Cluster(3, tmp_path) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 3, replicas=3)
        cluster.move_leader("t", 0, to=3)
        cluster.stop_broker(2)
    with Cluster(3, tmp_path) as cluster:
        assert cluster.live_brokers == (1, 2, 3)
        assert [cluster.leader("t", number) for number in range(3)] == [3, 3, 3]


def test_a_directory_of_three_brokers_does_not_open_with_one(tmp_path: Path) -> None:
    with Cluster(3, tmp_path) as cluster:
        create_topic(cluster.bootstrap_servers, "t", 3, replicas=1)
    with pytest.raises(StorageError, match=r"a directory of several Ottla brokers opens with as many \(--brokers 3\)"):
        Broker(tmp_path).start()
    with Cluster(3, tmp_path) as cluster:
        assert cluster.leader("t", 2) == 3


def test_a_further_broker_has_an_id_that_kafka_allows() -> None:
    with Cluster(brokers=2, config={"node.id": 2**31 - 2}) as cluster:
        with pytest.raises(ConfigError, match=r"node\.id \(2147483646\) is too high for 3 brokers"):
            cluster.add_broker()
        assert len(cluster.brokers) == 2
