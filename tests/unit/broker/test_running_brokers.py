"""How many brokers may listen where, and brokers that cannot begin; their life is in test_broker and test_cluster."""

import asyncio

import pytest

from ottla.broker.network.connection import Server
from ottla.broker.running_brokers import BROKERS_MAX, BrokerTask, listeners_of
from ottla.config import BrokerConfig, ConfigError
from ottla.metadata.topics import NewTopic
from ottla.protocol.errors import StorageError


@pytest.mark.parametrize(
    ("brokers", "listen", "words"),
    [
        (3, "h:65534", "the last port is 65535"),
        (1, "nowhere", "HOST:PORT"),
    ],
)
def test_counts_that_cannot_be(brokers: int, listen: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        listeners_of(BrokerConfig(), listen, brokers)


@pytest.mark.parametrize("brokers", [0, BROKERS_MAX + 1])
def test_numbers_of_brokers_that_cannot_be(brokers: int) -> None:
    with pytest.raises(ConfigError, match="write a number from 1 to 100"):
        BrokerTask(None, {}, None, brokers=brokers)


@pytest.mark.parametrize(("brokers", "listen"), [(1, "h:65535"), (BROKERS_MAX, "h:0"), (2, "h:65534")])
def test_counts_that_can(brokers: int, listen: str) -> None:
    assert [listener.name for listener in listeners_of(BrokerConfig(), listen, brokers)] == ["PLAINTEXT"]


def test_an_address_that_is_given_twice() -> None:
    config = BrokerConfig({"listeners": "PLAINTEXT://127.0.0.1:0"})
    assert listeners_of(config, None, 1)[0].host == "127.0.0.1"
    with pytest.raises(ConfigError, match="the address is given twice"):
        listeners_of(config, "127.0.0.1:0", 1)


def test_a_broker_that_cannot_begin_for_want_of_a_disk_can_be_started_later(monkeypatch) -> None:
    def full(_records) -> None:
        raise StorageError("the disk is full")

    async def life() -> None:
        task = BrokerTask(None, {}, "127.0.0.1:0", brokers=2)
        await task.start()
        try:
            task.cluster.topics.create(NewTopic(name="t", partitions=2, replication_factor=1))
            await task.stop_broker(2)
            with monkeypatch.context() as patch:
                patch.setattr(task.cluster.metadata_log, "append", full)
                with pytest.raises(StorageError):
                    await task.start_broker(2)
            assert not task.cluster.brokers.nodes[2].is_alive
            await task.start_broker(2)
            assert [await task.leader("t", number) for number in (0, 1)] == [1, 2]
        finally:
            await task.stop()

    asyncio.run(life())


def test_a_further_broker_whose_port_is_taken_is_none(monkeypatch) -> None:
    async def taken(_node, _host, _port) -> None:
        raise OSError("address already in use")

    async def life() -> None:
        task = BrokerTask(None, {}, "127.0.0.1:0")
        await task.start()
        try:
            with monkeypatch.context() as patch:
                patch.setattr(Server, "start", taken)
                with pytest.raises(OSError, match="in use"):
                    await task.add_broker()
            assert (list(task.cluster.brokers.nodes), task.cluster.cluster_metadata.broker_ids) == ([1], (1,))
            assert await task.add_broker() == 2
        finally:
            await task.stop()

    asyncio.run(life())
