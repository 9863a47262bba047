"""How `ottla.Consumer` hands out records, on real brokers: one by one, many, as Arrow batches, deserialised and intercepted."""

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka.serialization import IntegerDeserializer, StringDeserializer

import ottla
from ottla import KafkaError, TopicPartition, ValueDeserializationError, WakeupException
from ottla.testing.waiting import wait_until

SESSION = {"session.timeout.ms": 6_000, "heartbeat.interval.ms": 200}
COUNT = 1_200
WIDTH = 40
"""Records of a topic, and the bytes of a value: enough for fetches that the compiled decoder gets, and for several runs of records."""


@pytest.fixture
def make(kafka_broker: Any, unique_name: Callable[[str], str]) -> Any:
    """A consumer of the broker, in the test's group, closed at the end."""
    group = unique_name("group")
    config = {"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": group, "auto.offset.reset": "earliest", **SESSION}
    with ExitStack() as stack:
        yield lambda properties=None: stack.enter_context(ottla.Consumer(config | (properties or {})))


def next_of(consumer: ottla.Consumer) -> ottla.Message:
    message = consumer.poll(20)
    assert message is not None
    assert message.error() is None
    return message


def numbers(messages: list[ottla.Message]) -> list[int]:
    return [int(message.value()) for message in messages]


def offset(consumer: ottla.Consumer, partition: TopicPartition) -> int:
    (found,) = consumer.position([partition])
    return found.offset


def test_everything_is_right_between_two_polls(make: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, COUNT, width=WIDTH)
    where = TopicPartition(topic, 0)
    consumer = make({"enable.auto.commit": False})
    consumer.subscribe([topic])
    seen = [int(next_of(consumer).value()) for _ in range(700)]
    assert seen == list(range(700))
    for number in range(700, 710):
        assert int(next_of(consumer).value()) == number
        assert offset(consumer, where) == number + 1
    assert consumer.lag() == {where: COUNT - 710}
    next_of(consumer)
    consumer.commit(asynchronous=False)
    assert consumer.committed([where])[0].offset == 711
    next_of(consumer)
    consumer.seek(TopicPartition(topic, 0, 5))
    assert numbers([next_of(consumer), *consumer.consume(3, 20), next_of(consumer)]) == [5, 6, 7, 8, 9]
    consumer.pause([where])
    assert consumer.poll(0.05) is None
    consumer.resume([where])
    assert int(next_of(consumer).value()) == 10


def test_offsets_are_stored_and_committed_between_polls(make: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, COUNT, width=WIDTH)
    where = TopicPartition(topic, 0)
    consumer = make({"enable.auto.commit": False, "enable.auto.offset.store": False})
    consumer.subscribe([topic])
    for number in range(600):
        message = next_of(consumer)
        assert message.offset() == number
        consumer.store_offsets(message)
    assert consumer.position([where])[0].offset == 600
    consumer.commit(asynchronous=False)
    assert consumer.committed([where])[0].offset == 600
    consumer.commit(next_of(consumer), asynchronous=False)
    assert consumer.committed([where])[0].offset == 601


def test_no_record_is_lost_and_none_comes_twice_when_partitions_move(make: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(4, COUNT, width=WIDTH)
    first, second = make(), make()
    seen: list[int] = []
    lost: list[Any] = []
    first.subscribe([topic], on_lost=lambda _, partitions: lost.extend(partitions))
    seen += [int(next_of(first).value()) for _ in range(COUNT // 3)]
    second.subscribe([topic], on_lost=lambda _, partitions: lost.extend(partitions))
    while len(set(seen)) < COUNT:
        for consumer in (first, second):
            for _ in range(7):
                message = consumer.poll(0.02)
                if message is not None and message.error() is None:
                    seen.append(int(message.value()))
    # On a machine that stops for longer than a session, partitions are lost, and read again.
    assert lost or sorted(seen) == list(range(COUNT))


def test_ends_of_partitions_replace_no_record(make: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(3, 60, width=WIDTH)
    consumer = make({"enable.partition.eof": True})
    consumer.subscribe([topic])
    seen, ends = [], set()
    while len(seen) < 60 or len(ends) < 3:
        message = consumer.poll(20)
        assert message is not None
        if message.error() is None:
            seen.append(int(message.value()))
        else:
            assert message.error() == KafkaError._PARTITION_EOF
            ends.add(message.partition())
    assert sorted(seen) == list(range(60))


def test_arrow_batches_and_messages_come_from_one_position(make: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, COUNT, width=WIDTH)
    where = TopicPartition(topic, 0)
    consumer = make({"enable.auto.commit": False})
    consumer.subscribe([topic])
    seen = numbers([next_of(consumer), next_of(consumer)])
    batch = consumer.poll_arrow(max_records=100, timeout=20)
    assert batch.schema.names == ["key", "value", "topic", "partition", "offset", "timestamp", "timestampType"]
    assert batch.num_rows == 100
    assert offset(consumer, where) == 102
    seen += [int(value) for value in batch.column("value").to_pylist()]
    seen += numbers([next_of(consumer), *consumer.consume(10, 20)])
    while len(seen) < COUNT:
        seen += [int(value) for value in consumer.poll_arrow(timeout=20).column("value").to_pylist()]
    assert seen == list(range(COUNT))
    assert consumer.poll_arrow(timeout=0.05) is None
    assert consumer.lag() == {where: 0}
    consumer.commit(asynchronous=False)
    assert consumer.committed([where])[0].offset == COUNT
    consumer.seek(TopicPartition(topic, 0, COUNT - 1))
    batch = consumer.poll_arrow(timeout=20, include_headers=True)
    assert batch.column("offset").to_pylist() == [COUNT - 1]
    assert batch.column("headers").to_pylist() == [None]


def test_a_poll_that_waits_is_woken_up(make: Any, new_topic: Callable[..., str]) -> None:
    topic = new_topic(1, 2, width=WIDTH)
    consumer = make()
    consumer.subscribe([topic])
    next_of(consumer)
    next_of(consumer)
    waiting = threading.Event()

    def wake() -> None:
        assert waiting.wait(60)
        consumer.wakeup()

    thread = threading.Thread(target=wake)
    thread.start()
    waiting.set()
    with pytest.raises(WakeupException):
        consumer.poll()
    thread.join()
    consumer.wakeup()
    with pytest.raises(WakeupException):
        consumer.commit(offsets=[TopicPartition(topic, 0, 1)], asynchronous=False)
    assert consumer.poll(0.05) is None


class Noting:
    """Notes what it gets, and lets nothing through whose value is 1."""

    def __init__(self) -> None:
        self.consumed: list[Any] = []
        self.committed: list[int] = []
        self.is_closed = False

    def on_consume(self, messages: list[ottla.Message]) -> list[ottla.Message]:
        self.consumed += [message.value() for message in messages]
        return [message for message in messages if message.value() != 1]

    def on_commit(self, offsets: list[TopicPartition]) -> None:
        self.committed += [each.offset for each in offsets]

    def close(self) -> None:
        self.is_closed = True


def test_deserialisers_and_interceptors(make: Any, new_topic: Callable[..., str]) -> None:
    topic, noting = new_topic(1, 6, width=WIDTH), Noting()
    where = TopicPartition(topic, 0)

    def whole_number(data: bytes | None, context: Any) -> int:
        if int(data or b"") == 3 and context.topic == topic:
            raise ValueError("three")
        return int(data or b"")

    consumer = make({"value.deserializer": whole_number, "interceptor.classes": noting, "enable.auto.commit": False})
    consumer.subscribe([topic])
    assert next_of(consumer).value() == 0
    assert next_of(consumer).value() == 2, "the interceptor leaves 1 out"
    with pytest.raises(ValueDeserializationError) as raised:
        consumer.poll(20)
    assert raised.value.kafka_message.offset() == 3
    assert offset(consumer, where) == 4
    consumer.seek(TopicPartition(topic, 0, 2))
    assert [message.value() for message in consumer.consume(9, 20)] == [2], "what is before the error comes first"
    assert offset(consumer, where) == 3
    with pytest.raises(ValueDeserializationError):
        consumer.consume(9, 20)
    assert [message.value() for message in consumer.consume(2, 20)] == [4, 5]
    consumer.commit(asynchronous=False)
    consumer.commit()
    wait_until(lambda: consumer.poll(0.01) is None and noting.committed == [6], what="the commit is noted once")
    consumer.close()
    assert noting.consumed == [0, 1, 2, 2, 4, 5]
    assert noting.is_closed


def test_confluent_kafkas_deserialisers_are_taken(make: Any, library_on: Any, kafka_broker: Any, unique_name: Any) -> None:
    library, topic = library_on(kafka_broker), unique_name("topic")
    library.create_topic(topic, 1)
    library.produce(topic, [(0, "grün".encode())])
    consumer = make({"key.deserializer": IntegerDeserializer(), "value.deserializer": StringDeserializer("utf_8")})
    consumer.subscribe([topic])
    message = next_of(consumer)
    assert (message.key(), message.value()) == (None, "grün")
