"""`ottla.testing.Broker` and `Cluster`."""

import ottla.broker
from ottla.groups.events import GroupEvent
from ottla.testing import Broker, Cluster


def test_they_are_the_brokers_of_ottla_broker() -> None:
    assert issubclass(Broker, ottla.broker.Broker)
    assert issubclass(Cluster, ottla.broker.Cluster)


def test_topics_have_the_partitions_and_settings_that_are_asked_for() -> None:
    with Broker(config={"num.partitions": 5}) as broker:
        broker.create_topic("default")
        broker.create_topic("two", 2, config={"cleanup.policy": "compact", "preallocate": False})
        broker.produce("default", [b"x"], partition=4)
        broker.produce("two", [("k", b"x")], partition=1)
        assert broker.values("two") == [b"x"]


def test_data_and_port_outlive_a_restart() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        broker.produce("orders", [b"one"])
        broker.restart()
        broker.produce("orders", [b"two"])
        assert broker.bootstrap_servers == address
        assert broker.values("orders") == [b"one", b"two"]


def test_the_callback_of_the_test_gets_the_events_too() -> None:
    events: list[GroupEvent] = []
    with Cluster(2, on_group_event=events.append) as cluster:
        cluster.create_topic("orders")
        assert cluster.values("orders") == []
    assert events == []
