"""Five applications, each right or with one fault that is often made, and the test of ten lines that tells which.

Each test is a function, as its author would write it from docs/testing.md: the right application passes it, the broken one does not.
"""

import asyncio
import json
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from threading import Event

import pytest
from aiokafka import AIOKafkaConsumer
from confluent_kafka import Consumer, KafkaException, TopicPartition
from kafka import ConsumerRebalanceListener, KafkaConsumer
from kafka.errors import CommitFailedError

from ottla.testing import Broker, wait_until

Application = Callable[[Event], None]
Running = Callable[[Application], AbstractContextManager[None]]

QUICK_SECONDS = 0.5


def confluent_consumer(broker: Broker) -> Consumer:
    settings = {"group.id": "billing", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, **settings})
    consumer.subscribe(["orders"])
    return consumer


def kafka_python_consumer(broker: Broker, **settings: int) -> KafkaConsumer:
    return KafkaConsumer(
        bootstrap_servers=broker.bootstrap_servers,
        client_id="worker",
        group_id="billing",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        heartbeat_interval_ms=50,
        **settings,
    )


def subscribe(consumer: KafkaConsumer, listener: ConsumerRebalanceListener | None = None) -> None:
    # kafka-python 3.0 joins, learns the topic's partitions and joins again; where a poll ends in the midst of the second join, it is
    # forgotten, and the consumer reads nothing and sends no heartbeats. Where the partitions are known there is no second join.
    consumer.subscribe(["orders"], listener=listener)
    consumer.partitions_for_topic("orders")


# Commit before work: what fails is lost.


def charge_orders(broker: Broker, charge: Callable[[bytes], None], *, commits_first: bool) -> None:
    consumer = confluent_consumer(broker)
    try:
        while True:
            message = consumer.poll(10)
            assert message is not None
            if message.error():
                raise KafkaException(message.error())
            if commits_first:
                consumer.commit(message, asynchronous=False)
            charge(message.value())
            if not commits_first:
                consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()


def an_order_that_fails_is_not_committed(ottla_broker: Broker, *, commits_first: bool) -> None:
    def charge(order: bytes) -> None:
        if order == b"two":
            raise ConnectionError("the bank does not answer")

    ottla_broker.produce("orders", [b"one", b"two", b"three"])
    with pytest.raises(ConnectionError):
        charge_orders(ottla_broker, charge, commits_first=commits_first)
    assert ottla_broker.group("billing").committed() == {("orders", 0): 1}


def test_commit_before_work(ottla_broker_factory: Callable[..., Broker]) -> None:
    an_order_that_fails_is_not_committed(ottla_broker_factory(), commits_first=False)
    with pytest.raises(AssertionError, match=r"\('orders', 0\): 2"):
        an_order_that_fails_is_not_committed(ottla_broker_factory(), commits_first=True)


# A forgotten pause: the worker is asked for nothing more once its queue was full.


def fill_warehouse(broker: Broker, *, resumes: bool) -> Application:
    async def store(stopping: Event) -> None:
        settings = {"group_id": "billing", "auto_offset_reset": "earliest", "max_poll_records": 10}
        consumer = AIOKafkaConsumer("orders", bootstrap_servers=broker.bootstrap_servers, enable_auto_commit=False, **settings)
        await consumer.start()
        shelf: list[bytes] = []
        while not stopping.is_set():
            for records in (await consumer.getmany(timeout_ms=50)).values():
                shelf += [record.value for record in records]
                await consumer.commit()
            if len(shelf) >= 10:
                consumer.pause(*consumer.assignment())
                shelf.clear()
            elif resumes:
                consumer.resume(*consumer.paused())
        await consumer.stop()

    return lambda stopping: asyncio.run(store(stopping))


def a_full_shelf_is_emptied(ottla_broker: Broker, running: Running, *, resumes: bool) -> None:
    ottla_broker.produce("orders", [b"%d" % number for number in range(30)])
    group = ottla_broker.group("billing")
    with running(fill_warehouse(ottla_broker, resumes=resumes)):
        group.wait(state="Stable", members=1, lag=20)
        group.wait(lag=0, timeout=30 if resumes else QUICK_SECONDS)


def test_a_forgotten_pause(ottla_broker_factory: Callable[..., Broker], running: Running) -> None:
    a_full_shelf_is_emptied(ottla_broker_factory(), running, resumes=True)
    with pytest.raises(AssertionError, match=r"It is Stable and has 1 member .* and a lag of 20"):
        a_full_shelf_is_emptied(ottla_broker_factory(), running, resumes=False)


# A slow handler: a batch takes longer than max.poll.interval.ms.


def print_labels(broker: Broker, printed: list[bytes], *, records_at_once: int) -> Application:
    def run(stopping: Event) -> None:
        timeouts = {"session_timeout_ms": 1000, "max_poll_interval_ms": 1000}
        consumer = kafka_python_consumer(broker, max_poll_records=records_at_once, **timeouts)
        subscribe(consumer)
        while not stopping.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                for record in records:
                    time.sleep(0.2)  # the printer
                    printed.append(record.value)
                with suppress(CommitFailedError):
                    consumer.commit()
        consumer.close(autocommit=False)

    return run


def printing_costs_no_membership(ottla_broker: Broker, running: Running, *, records_at_once: int) -> None:
    printed: list[bytes] = []
    ottla_broker.produce("orders", [b"%d" % number for number in range(9)])
    group = ottla_broker.group("billing")
    with running(print_labels(ottla_broker, printed, records_at_once=records_at_once)), group.expect(unplanned=0):
        wait_until(lambda: len(printed) == 9, "nine labels")
        group.wait(state="Stable", members=1)


def test_a_slow_handler(ottla_broker_factory: Callable[..., Broker], running: Running) -> None:
    settings = {"group.min.session.timeout.ms": 100}
    printing_costs_no_membership(ottla_broker_factory(settings), running, records_at_once=1)
    with pytest.raises(AssertionError, match=r"(?s)worker did not poll within max\.poll\.interval\.ms.*POLL_TIMEOUT.*max\.poll\.records"):
        printing_costs_no_membership(ottla_broker_factory(settings), running, records_at_once=9)


# A poison pill: a record that can not be read is tried again and again, and all behind it wait.


def count_orders(broker: Broker, *, skips: bool) -> Application:
    def run(stopping: Event) -> None:
        consumer, total = confluent_consumer(broker), 0
        while not stopping.is_set():
            message = consumer.poll(0.1)
            if message is None or message.error():
                continue
            try:
                total += json.loads(message.value())["count"]
            except ValueError:
                if not skips:
                    time.sleep(0.05)
                    consumer.seek(TopicPartition(message.topic(), message.partition(), message.offset()))
                    continue
            consumer.commit(message, asynchronous=False)
        consumer.close()

    return run


def a_record_that_can_not_be_read_stops_nothing(ottla_broker: Broker, running: Running, *, skips: bool) -> None:
    ottla_broker.produce("orders", ['{"count": 1}', "not JSON", '{"count": 2}'])
    group = ottla_broker.group("billing")
    with running(count_orders(ottla_broker, skips=skips)):
        group.wait(state="Stable", members=1, lag=2)
        group.wait(lag=0, timeout=30 if skips else QUICK_SECONDS)


def test_a_poison_pill(ottla_broker_factory: Callable[..., Broker], running: Running) -> None:
    a_record_that_can_not_be_read_stops_nothing(ottla_broker_factory(), running, skips=True)
    with pytest.raises(AssertionError, match=r"It is Stable and has 1 member .* and a lag of 2"):
        a_record_that_can_not_be_read_stops_nothing(ottla_broker_factory(), running, skips=False)


# A seek in a callback: each rebalance starts from the beginning.


class FromTheBeginning(ConsumerRebalanceListener):
    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer

    def on_partitions_revoked(self, revoked: object) -> None:
        pass

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> None:
        if assigned:
            self.consumer.seek_to_beginning(*assigned)


def send_mails(broker: Broker, sent: list[bytes], *, seeks: bool) -> Application:
    def run(stopping: Event) -> None:
        consumer = kafka_python_consumer(broker)
        subscribe(consumer, FromTheBeginning(consumer) if seeks else None)
        while not stopping.is_set():
            for records in consumer.poll(timeout_ms=100).values():
                sent.extend(record.value for record in records)
                consumer.commit()
        consumer.close(autocommit=False)

    return run


def a_rebalance_sends_no_mail_twice(ottla_broker: Broker, running: Running, *, seeks: bool) -> None:
    sent: list[bytes] = []
    ottla_broker.produce("orders", [b"one", b"two"])
    group = ottla_broker.group("billing")
    with running(send_mails(ottla_broker, sent, seeks=seeks)):
        group.wait(lag=0)
        group.evict("worker")
        group.wait(state="Stable", members=1)
        ottla_broker.produce("orders", [b"three"])
        group.wait(lag=0)
    assert sent == [b"one", b"two", b"three"]


def test_a_seek_in_a_callback(ottla_broker_factory: Callable[..., Broker], running: Running) -> None:
    a_rebalance_sends_no_mail_twice(ottla_broker_factory(), running, seeks=False)
    # On a slow machine, the application is at work again when the lag is waited for.
    with pytest.raises(AssertionError, match=r"b'one' != b'three'|a lag of 2"):
        a_rebalance_sends_no_mail_twice(ottla_broker_factory(), running, seeks=True)
