"""With real clients: offsets are committed automatically, by hand synchronously and asynchronously, and without a membership."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from ottla.testing.waiting import wait_until

RECORDS = 20
BY_HAND = {"enable.auto.commit": False}


@pytest.fixture
def topic(kafka_broker: Any, library_on: Callable[..., Any], unique_name: Callable[[str], str]) -> str:
    """A topic of one partition with RECORDS records."""
    name = unique_name("topic")
    library = library_on(kafka_broker)
    library.create_topic(name, 1)
    library.produce(name, [(0, b"%d" % number) for number in range(RECORDS)])
    return name


@pytest.fixture
def make_consumer(kafka_broker: Any) -> Callable[..., Any]:
    """A confluent-kafka consumer that starts at the beginning, with a test's own settings."""
    from confluent_kafka import Consumer

    def make(group: str, settings: Mapping[str, Any] | None = None) -> Any:
        base = {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "session.timeout.ms": 6000,
            "heartbeat.interval.ms": 200,
            "fetch.wait.max.ms": 100,
        }
        return Consumer(base | dict(settings or {}))

    return make


def read(consumer: Any, count: int) -> list[Any]:
    """The next `count` messages."""
    messages: list[Any] = []
    wait_until(lambda: len(messages) >= count, f"{count} records", lambda: messages.extend(consumer.consume(count - len(messages), 0.05)))
    assert not [message.error() for message in messages if message.error()]
    return messages


def committed(consumer: Any, topic: str) -> int:
    from confluent_kafka import TopicPartition

    return int(consumer.committed([TopicPartition(topic, 0)], timeout=60)[0].offset)


def test_commits_happen_by_themselves(topic: str, make_consumer: Callable[..., Any], unique_name: Callable[[str], str]) -> None:
    consumer = make_consumer(unique_name("group"), {"enable.auto.commit": True, "auto.commit.interval.ms": 100})
    consumer.subscribe([topic])
    read(consumer, RECORDS)
    wait_until(lambda: committed(consumer, topic) == RECORDS, "the automatic commit", lambda: consumer.poll(0.05))
    consumer.close()


def test_the_last_automatic_commit_comes_with_the_close(
    topic: str, make_consumer: Callable[..., Any], unique_name: Callable[[str], str]
) -> None:
    group = unique_name("group")
    consumer = make_consumer(group, {"enable.auto.commit": True, "auto.commit.interval.ms": 600_000})
    consumer.subscribe([topic])
    read(consumer, RECORDS)
    consumer.close()
    successor = make_consumer(group)
    assert committed(successor, topic) == RECORDS
    successor.close()


def test_a_commit_by_hand_that_waits(topic: str, make_consumer: Callable[..., Any], unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import TopicPartition

    consumer = make_consumer(unique_name("group"), BY_HAND)
    consumer.subscribe([topic])
    messages = read(consumer, 7)
    assert committed(consumer, topic) < 0, "nothing is committed unasked"
    (answered,) = consumer.commit(offsets=[TopicPartition(topic, 0, messages[-1].offset() + 1, "by hand")], asynchronous=False)
    assert (answered.offset, answered.error) == (7, None)
    (kept,) = consumer.committed([TopicPartition(topic, 0)], timeout=60)
    assert (kept.offset, kept.metadata) == (7, "by hand")
    consumer.close()


def test_a_commit_by_hand_that_does_not_wait(topic: str, make_consumer: Callable[..., Any], unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import TopicPartition

    callbacks: list[Any] = []
    consumer = make_consumer(unique_name("group"), BY_HAND | {"on_commit": lambda error, parts: callbacks.append((error, parts))})
    consumer.subscribe([topic])
    read(consumer, 9)
    consumer.commit(offsets=[TopicPartition(topic, 0, 9)], asynchronous=True)
    wait_until(lambda: callbacks, "the callback of the commit", lambda: consumer.poll(0.05))
    error, parts = callbacks[0]
    assert error is None
    assert [(part.topic, part.partition, part.offset) for part in parts] == [(topic, 0, 9)]
    assert committed(consumer, topic) == 9
    consumer.close()


def test_a_standalone_consumer_commits_with_a_group_id(
    topic: str, make_consumer: Callable[..., Any], unique_name: Callable[[str], str]
) -> None:
    from confluent_kafka import TopicPartition

    group = unique_name("group")
    consumer = make_consumer(group, BY_HAND)
    consumer.assign([TopicPartition(topic, 0)])
    read(consumer, 5)
    consumer.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    consumer.close()
    successor = make_consumer(group, BY_HAND)
    successor.assign([TopicPartition(topic, 0)])
    assert read(successor, 1)[0].offset() == 5
    successor.close()


def test_a_standalone_commit_into_a_group_with_members_is_refused(
    topic: str, make_consumer: Callable[..., Any], unique_name: Callable[[str], str]
) -> None:
    from confluent_kafka import KafkaError, KafkaException, TopicPartition

    group = unique_name("group")
    member = make_consumer(group, BY_HAND)
    member.subscribe([topic])
    read(member, 1)
    outsider = make_consumer(group, BY_HAND)
    outsider.assign([TopicPartition(topic, 0)])
    with pytest.raises(KafkaException) as refused:
        outsider.commit(offsets=[TopicPartition(topic, 0, 5)], asynchronous=False)
    assert refused.value.args[0].code() == KafkaError.UNKNOWN_MEMBER_ID
    outsider.close()
    member.close()


@pytest.mark.parametrize("name", ["aiokafka", "kafka-python"])
def test_other_libraries_commit_too(
    name: str,
    kafka_broker: Any,
    topic: str,
    library_on: Callable[..., Any],
    unique_name: Callable[[str], str],
) -> None:
    group = unique_name("group")
    library = library_on(kafka_broker, name)
    member = library.member(group, topic, "range")
    received: list[Any] = []
    wait_until(lambda: len(received) == RECORDS, "every record", lambda: received.extend(member.poll()))
    member.commit()
    assert member.committed([0]) == {0: RECORDS}
    member.close()
