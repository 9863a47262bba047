"""With real clients: offsets are committed automatically, by hand synchronously and asynchronously, and without a membership."""

import threading
from collections.abc import Callable, Mapping
from typing import Any

import confluent_kafka
import pytest

import ottla
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


class Committer(threading.Thread):
    """A program that commits each record synchronously; `refusals` are the errors of its commits."""

    def __init__(self, consumer: Any, topic: str) -> None:
        super().__init__(daemon=True)
        self.consumer = consumer
        self.is_over = threading.Event()
        self.committed = 0
        self.refusals: list[str] = []
        consumer.subscribe([topic])
        self.start()

    def run(self) -> None:
        while not self.is_over.wait(0.005):
            message = self.consumer.poll(0.05)
            if message is None or message.error():
                continue
            try:
                self.consumer.commit(message=message, asynchronous=False)
                self.committed += 1
            except (ottla.KafkaException, confluent_kafka.KafkaException) as error:
                self.refusals.append(str(error))
        self.consumer.close()

    def owned(self) -> int:
        return len(self.consumer.assignment())


# Hundreds of ours were refused before. Of librdkafka's, the first one of a rebalance is, or a few.
@pytest.mark.parametrize(("module", "refused_max"), [(ottla, 0), (confluent_kafka, 5)], ids=["ottla", "confluent-kafka"])
def test_commits_go_on_during_a_cooperative_rebalance(
    module: Any, refused_max: int, kafka_broker: Any, new_topic: Callable[..., str], unique_name: Callable[[str], str]
) -> None:
    topic, group = new_topic(4, 4_000), unique_name("group")

    def program(heartbeat_ms: int) -> Committer:
        config = {
            "bootstrap.servers": kafka_broker.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "partition.assignment.strategy": "cooperative-sticky",
            "session.timeout.ms": 6_000,
            "heartbeat.interval.ms": heartbeat_ms,
        }
        return Committer(module.Consumer(config), topic)

    programs = [program(200)]
    wait_until(lambda: programs[0].committed > 0, "the first commit")
    # It hears of the second rebalance with its next heartbeat; until then the other one waits for its answer to JoinGroup, with records.
    programs.append(program(1_500))
    wait_until(lambda: [each.owned() for each in programs] == [2, 2] and programs[1].committed > 5, "two partitions for each member")
    for each in programs:
        each.is_over.set()
        each.join()
    assert max(len(each.refusals) for each in programs) <= refused_max, programs[0].refusals[:10]
