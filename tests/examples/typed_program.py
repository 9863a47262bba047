"""A program as users write it, with types: `mypy --strict` reads it with the rest, and finds an ignored error that is none."""

from typing import assert_type

import ottla
from ottla.testing import Broker, BrokerFactory, Cluster


def count_bytes(bootstrap_servers: str) -> int:
    total = 0
    with ottla.Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "sizes"}) as consumer:
        consumer.subscribe(["orders"])
        message = consumer.poll(1.0)
        if message is not None and message.error() is None:
            assert_type(message.value(), bytes | None)
            assert_type(message.offset(), int | None)
            total += len(message.value() or b"")
            consumer.commit(message, asynchronous=False)
        assert_type(consumer.assignment(), list[ottla.TopicPartition])
    return total


async def read_one(bootstrap_servers: str) -> ottla.ConsumerRecord:
    async with ottla.AsyncConsumer("orders", bootstrap_servers=bootstrap_servers, group_id="one", enable_auto_commit=False) as consumer:
        return await consumer.getone()


def make_wrong_ones() -> None:
    ottla.AsyncConsumer("orders", group="one")  # type: ignore[call-arg]
    ottla.AsyncConsumer("orders", session_timeout_ms="6 s")  # type: ignore[arg-type]


def test_brokers(ottla_broker_factory: BrokerFactory) -> None:
    one = ottla_broker_factory({"num.partitions": 3})
    assert_type(one, Broker)
    assert_type(ottla_broker_factory(brokers=3), Cluster)
    one.produce("orders", [b"first"])
    assert count_bytes(one.bootstrap_servers) == 5
