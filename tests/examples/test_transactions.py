"""The recipes of docs/transactions.md: applications that read, transform and write exactly once, with three client libraries."""

import asyncio
from collections.abc import Callable

import confluent_kafka
import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka import TopicPartition as AioTopicPartition
from confluent_kafka import KafkaException
from kafka import KafkaConsumer, KafkaProducer
from kafka.structs import OffsetAndMetadata, TopicPartition

import ottla
from ottla.testing import Broker


def bill(bootstrap_servers: str, count: int, check: Callable[[bytes], object] = int) -> None:
    """An application with confluent-kafka: doubles `count` orders, each read and written in one transaction, which `check` may end."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "billing",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe(["orders"])
    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap_servers, "transactional.id": "billing-0"})
    producer.init_transactions(30)
    for _ in range(count):
        (order,) = consumer.consume(1, timeout=30)
        producer.begin_transaction()
        producer.produce("bills", b"%d" % (2 * int(order.value())))
        producer.send_offsets_to_transaction(consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), 30)
        check(order.value())
        producer.commit_transaction(30)
    consumer.close()


def test_orders_are_billed_once(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1", b"2"])
    bill(ottla_broker.bootstrap_servers, count=2)
    ottla_broker.wait_for_no_transactions()
    assert ottla_broker.values("bills") == [b"2", b"4"]
    assert ottla_broker.group("billing").committed() == {("orders", 0): 2}


def test_a_crash_inside_a_transaction(ottla_broker: Broker) -> None:
    def crash_at_two(order: bytes) -> None:
        if order == b"2":
            raise RuntimeError("out of memory")

    ottla_broker.produce("orders", [b"1", b"2"])
    with pytest.raises(RuntimeError, match="out of memory"):
        bill(ottla_broker.bootstrap_servers, count=2, check=crash_at_two)
    assert list(ottla_broker.transactions()) == ["billing-0"]
    ottla_broker.abort("billing-0")  # as after transaction.timeout.ms, or as its next instance does
    assert ottla_broker.values("bills") == [b"2"]
    assert ottla_broker.group("billing").committed() == {("orders", 0): 1}


def test_a_producer_whose_transaction_took_too_long(ottla_broker: Broker) -> None:
    producer = confluent_kafka.Producer({"bootstrap.servers": ottla_broker.bootstrap_servers, "transactional.id": "billing-0"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("bills", b"2")
    producer.flush(30)
    ottla_broker.abort("billing-0")
    with pytest.raises(KafkaException) as fenced:
        producer.commit_transaction(30)
    assert fenced.value.args[0].fatal()
    assert ottla_broker.values("bills") == []


def test_the_consumer_of_ottla(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1"])
    settings = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False, "isolation.level": "read_committed"}
    consumer = ottla.Consumer({"bootstrap.servers": ottla_broker.bootstrap_servers, **settings})
    consumer.subscribe(["orders"])
    (order,) = consumer.consume(1, timeout=30)
    producer = confluent_kafka.Producer({"bootstrap.servers": ottla_broker.bootstrap_servers, "transactional.id": "billing-0"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce("bills", order.value())
    positions = [
        confluent_kafka.TopicPartition(each.topic, each.partition, each.offset) for each in consumer.position(consumer.assignment())
    ]
    producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata(), 30)
    producer.commit_transaction(30)
    ottla_broker.wait_for_no_transactions()
    assert ottla_broker.group("billing").committed() == {("orders", 0): 1}
    consumer.close()


def test_kafka_python_in_a_transaction(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1"])
    settings = {"bootstrap_servers": ottla_broker.bootstrap_servers}
    consumer = KafkaConsumer(
        "orders", group_id="billing", auto_offset_reset="earliest", enable_auto_commit=False, isolation_level="read_committed", **settings
    )
    order = next(consumer)
    producer = KafkaProducer(transactional_id="billing-0", **settings)
    producer.init_transactions()
    producer.begin_transaction()
    producer.send("bills", order.value)
    offsets = {TopicPartition(order.topic, order.partition): OffsetAndMetadata(order.offset + 1, "", -1)}
    producer.send_offsets_to_transaction(offsets, consumer.group_metadata())
    producer.commit_transaction()
    ottla_broker.wait_for_no_transactions()
    assert ottla_broker.values("bills") == [b"1"]
    assert ottla_broker.group("billing").committed() == {("orders", 0): 1}
    producer.close()
    consumer.close()


async def bill_with_aiokafka(bootstrap_servers: str) -> None:
    """One order with aiokafka, which sends no generation: a member that was removed from the group is not refused."""
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=bootstrap_servers,
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
    )
    async with consumer, AIOKafkaProducer(bootstrap_servers=bootstrap_servers, transactional_id="billing-0") as producer:
        order = await consumer.getone()
        async with producer.transaction():
            await producer.send("bills", order.value)
            await producer.send_offsets_to_transaction({AioTopicPartition(order.topic, order.partition): order.offset + 1}, "billing")


def test_aiokafka_in_a_transaction(ottla_broker: Broker) -> None:
    ottla_broker.produce("orders", [b"1"])
    asyncio.run(bill_with_aiokafka(ottla_broker.bootstrap_servers))
    ottla_broker.wait_for_no_transactions()
    assert ottla_broker.values("bills") == [b"1"]
    assert ottla_broker.group("billing").committed() == {("orders", 0): 1}
