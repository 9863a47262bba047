"""Several listeners on a broker: a client of each is told only addresses of its own, by one broker and by several."""

from collections.abc import Callable

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka.admin import AdminClient

from ottla.broker import Broker, Cluster
from ottla.client.network.connection import BrokerConnection
from ottla.config import ConfigError
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import fitter, request_class, response_class

LISTENERS = {
    "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://localhost:0",
    "listener.security.protocol.map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
}


def told(servers: str) -> set[str]:
    """The addresses of brokers that a client learns from one that it is given."""
    admin = AdminClient({"bootstrap.servers": servers.split(",")[0]})
    listed = {f"{broker.host}:{broker.port}" for broker in admin.list_topics(timeout=30).brokers.values()}
    described = {f"{node.host}:{node.port}" for node in admin.describe_cluster().result(30).nodes}
    assert listed == described
    return listed


def pass_a_record(servers: str, topic: str) -> None:
    """Produce a record to the leaders of a topic, and consume it as a member of a group, whose coordinator must be found."""
    producer = Producer({"bootstrap.servers": servers})
    producer.produce(topic, servers.encode())
    assert producer.flush(30) == 0
    consumer = Consumer({"bootstrap.servers": servers, "group.id": topic, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    try:
        record = consumer.poll(30)
        assert record is not None
        assert (record.error(), record.value()) == (None, servers.encode())
        consumer.commit(asynchronous=False)
    finally:
        consumer.close()


@pytest.mark.parametrize(("make", "brokers"), [(lambda: Broker(config=LISTENERS), 1), (lambda: Cluster(brokers=3, config=LISTENERS), 3)])
def test_a_client_of_each_listener_is_told_its_own_addresses(make: Callable[[], Broker | Cluster], brokers: int) -> None:
    with make() as running:
        inside, outside = running.bootstrap_servers_of("INSIDE"), running.bootstrap_servers_of("OUTSIDE")
        assert running.bootstrap_servers == inside, "the first listener"
        for servers, host in ((inside, "127.0.0.1"), (outside, "localhost")):
            addresses = set(servers.split(","))
            assert len(addresses) == brokers
            assert told(servers) == addresses
            assert {address.rpartition(":")[0] for address in addresses} == {host}
            pass_a_record(servers, f"of-{host}")
        with pytest.raises(ConfigError, match="INSIDE, OUTSIDE"):
            running.bootstrap_servers_of("OTHER")


def test_the_coordinator_is_found_at_the_listener_that_the_question_came_through() -> None:
    with Cluster(brokers=3, config=LISTENERS) as cluster:
        broker = cluster.coordinator("g").broker_id
        assert broker is not None
        for name in ("INSIDE", "OUTSIDE"):
            host, _, port = cluster.address(broker % 3 + 1, name).rpartition(":")
            with BrokerConnection(host, int(port), client_id="test", timeout_ms=30_000) as connection:
                request = request_class(ApiKey.FIND_COORDINATOR, 3)
                found = connection.call(fitter(request)({"key": "g", "key_type": 0}), response_class(ApiKey.FIND_COORDINATOR, 3))
            assert f"{found.host}:{found.port}" == cluster.address(broker, name)


def test_a_stopped_broker_comes_back_on_the_ports_of_all_its_listeners() -> None:
    with Cluster(brokers=2, config=LISTENERS) as cluster:
        before = [cluster.address(2, name) for name in ("INSIDE", "OUTSIDE")]
        cluster.stop_broker(2)
        assert told(cluster.address(1, "OUTSIDE")) == {cluster.address(1, "OUTSIDE")}
        cluster.start_broker(2)
        assert [cluster.address(2, name) for name in ("INSIDE", "OUTSIDE")] == before
        assert told(before[1]) == {cluster.address(1, "OUTSIDE"), before[1]}


def test_addresses_that_are_advertised() -> None:
    config = LISTENERS | {"advertised.listeners": "INSIDE://127.0.0.1:0,OUTSIDE://kafka.example:19092"}
    with Cluster(brokers=2, config=config) as cluster:
        assert cluster.bootstrap_servers_of("OUTSIDE") == "kafka.example:19092,kafka.example:19093"
        assert told(cluster.bootstrap_servers_of("INSIDE")) == set(cluster.bootstrap_servers_of("INSIDE").split(","))
