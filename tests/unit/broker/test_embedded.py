"""Work that is handed to the brokers' loop from another thread."""

import asyncio
import threading

import pytest

from ottla.broker import Broker, Cluster, embedded
from ottla.client.admin.client import AdminClient
from ottla.core.config import ConfigError
from ottla.testing.clients.topics import create_topic


def test_who_asks_before_the_start_learns_how_to_start() -> None:
    with pytest.raises(RuntimeError, match=r"use `with Broker\(\) as broker:`"):
        _ = Broker().bootstrap_servers
    with pytest.raises(RuntimeError, match=r"use `with Cluster\(\) as cluster:`"):
        Cluster().stop_broker(1)


def test_what_the_loop_raises_is_raised_here() -> None:
    with Cluster(2) as cluster, pytest.raises(ConfigError, match="there is no broker 7: the brokers are 1, 2"):
        cluster.stop_broker(7)
    with pytest.raises(ConfigError, match="write a number from 1 to 100"):
        Cluster(0)


def test_health_is_that_of_all() -> None:
    with Cluster(2) as cluster:
        assert cluster.health.is_healthy
        assert cluster.metrics_url is None


def test_settings_may_be_numbers_and_flags() -> None:
    with Broker(config={"num.partitions": 3, "auto.create.topics.enable": False}) as broker:
        assert broker.bootstrap_servers
    with pytest.raises(ConfigError, match=r"did you mean 'num\.partitions'"):
        Broker(config={"num_partition": 3})
    with pytest.raises(ConfigError, match=r"\(3\) > the number of brokers \(2\)"):
        Cluster(2, config={"default.replication.factor": 3})


def test_no_thread_is_said_and_the_next_start_works(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    broker = Broker()
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse)
        with pytest.raises(OSError, match="no thread can be started: raise the limits"):
            broker.start()
    with broker:
        assert broker.bootstrap_servers


def test_a_loop_that_cannot_be_made_is_an_error_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(embedded, "new_event_loop", refuse)
    with pytest.raises(OSError, match="Too many open files"):
        Broker().start()


def test_a_data_directory_has_a_name() -> None:
    with pytest.raises(ConfigError, match="the data directory has no name"):
        Broker("")


def test_a_broker_that_starts_again_has_its_port_and_its_topics() -> None:
    with Broker() as broker:
        address = broker.bootstrap_servers
        create_topic(address, "orders")
        broker.stop()
        broker.start()
        assert broker.bootstrap_servers == address
        broker.restart()
        assert broker.bootstrap_servers == address
        with AdminClient(address) as admin:
            assert "orders" in admin.list_topics()


def test_a_cluster_that_starts_again_has_its_ports() -> None:
    with Cluster(2) as cluster:
        addresses = cluster.bootstrap_servers
        cluster.stop_broker(2)
        cluster.restart()
        assert cluster.bootstrap_servers == addresses


def test_a_broker_in_a_coroutine_starts_and_stops_beside_the_callers_loop() -> None:
    async def use() -> str:
        started = asyncio.create_task(asyncio.sleep(0, "the loop runs"))
        async with Broker() as broker:
            assert broker.bootstrap_servers
            assert started.done(), "the caller's loop stood still while the broker started"
        with pytest.raises(RuntimeError, match="not running"):
            _ = broker.bootstrap_servers
        return await started

    assert asyncio.run(use()) == "the loop runs"
