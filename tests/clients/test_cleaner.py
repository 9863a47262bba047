"""With real clients: compaction keeps the last message of each key at its offset, and a cleaner that is killed loses nothing."""

import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.doctor import inspect_directory
from ottla.cli.processes import OttlaProcess
from ottla.testing.waiting import wait_until

SEGMENT_BYTES = 1 << 20  # the smallest that Kafka allows
QUICK_CLEANER = {
    "log.cleaner.backoff.ms": "100",
    "log.cleaner.min.cleanable.ratio": "0.01",
    "log.initial.task.delay.ms": "100",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "offsets.topic.segment.bytes": str(SEGMENT_BYTES),
}


def make_topic(broker: Any, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {"cleanup.policy": "compact", "segment.bytes": str(SEGMENT_BYTES), "min.cleanable.dirty.ratio": "0.01"}
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(60)


def produce(broker: Any, topic: str, messages: list[tuple[str, bytes]]) -> list[int]:
    """Writes the messages in their order; the offset of each."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 5, "batch.size": 100_000})
    offsets: list[int] = []

    def done(error: Any, message: Any) -> None:
        assert error is None, error
        offsets.append(message.offset())

    for key, value in messages:
        producer.produce(topic, key=key, value=value, on_delivery=done)
    assert producer.flush(30) == 0
    return offsets


def filler(label: str, segments: int = 1) -> list[tuple[str, bytes]]:
    """Other data, with keys of its own: enough to fill so many segments."""
    return [(f"filler-{label}-{number}", bytes(10_000)) for number in range(segments * SEGMENT_BYTES // 10_000 + 1)]


@pytest.fixture
def read_all() -> Iterator[Callable[[Any, str], list[tuple[int, bytes, bytes | None]]]]:
    """`read_all(broker, topic)`: offset, key and value of every message in partition 0, from start to end."""
    from confluent_kafka import Consumer, TopicPartition

    consumers: dict[str, Any] = {}

    def read(broker: Any, topic: str) -> list[tuple[int, bytes, bytes | None]]:
        address = broker.bootstrap_servers
        if address not in consumers:
            reading = {"auto.offset.reset": "earliest", "enable.partition.eof": True, "fetch.wait.max.ms": 10}
            patience = {"reconnect.backoff.ms": 50, "reconnect.backoff.max.ms": 200, "log_level": 0}
            settings = {"bootstrap.servers": address, "group.id": "reader", "enable.auto.commit": False}
            consumers[address] = Consumer(settings | reading | patience)
        consumer = consumers[address]
        consumer.assign([TopicPartition(topic, 0, 0)])
        found = []
        while True:
            message = consumer.poll(1)
            if message is not None and message.error() is not None:
                assert message.error().code() == -191, message.error()  # the end of the partition
                consumer.unassign()
                return found
            if message is not None:
                found.append((message.offset(), message.key(), message.value()))

    yield read
    for consumer in consumers.values():
        consumer.close()


def test_the_last_message_of_each_key_stays_at_its_offset(
    new_broker: Callable[..., Any], unique_name: Callable[[str], str], read_all: Callable[..., Any]
) -> None:
    broker, topic = new_broker(QUICK_CLEANER), unique_name("compacted")
    make_topic(broker, topic)
    keys = ["K1", "K2", "K1", "K1", "K3", "K2"]
    assert produce(broker, topic, [(key, str(at).encode()) for at, key in enumerate(keys)]) == list(range(6))
    produce(broker, topic, filler("a", segments=2))
    left: list[Any] = []

    def look() -> None:
        left[:] = [each for each in read_all(broker, topic) if each[1].startswith(b"K")]

    wait_until(lambda: len(left) == 3, "the cleaner", look)
    assert left == [(3, b"K1", b"3"), (4, b"K3", b"4"), (5, b"K2", b"5")]
    # The doctor sees the same in the files of either, while it runs.
    report: dict[str, Any] = {}

    def ask() -> None:
        report.update(inspect_directory(getattr(broker, "log_dir", broker.data_dir)))

    ask()
    wait_until(lambda: facts_of(report, topic)["cleaned_to"], "the cleaner's checkpoint", ask)
    facts = facts_of(report, topic)
    assert facts["cleaned_to"] >= 6
    assert facts["dirty_bytes"] < facts["size_bytes"]
    (seen,) = [each for each in report["topics"] if each["name"] == topic]
    assert (seen["is_compacted"], seen["partitions"]) == (True, 1)
    assert seen["grown_bytes"] == seen["size_bytes"] > 2 * SEGMENT_BYTES
    assert report["healthy"], report["findings"]


def facts_of(report: dict[str, Any], topic: str) -> dict[str, Any]:
    (found,) = [each for each in report["partitions"] if each["topic"] == topic]
    return dict(found)


def test_a_thousand_commits_leave_one_message(
    new_broker: Callable[..., Any], unique_name: Callable[[str], str], read_all: Callable[..., Any]
) -> None:
    from confluent_kafka import Consumer, KafkaException, TopicPartition

    broker, topic, group, other = new_broker(QUICK_CLEANER), unique_name("t"), unique_name("group"), unique_name("other")
    make_topic(broker, topic)

    def is_served(consumer: Consumer) -> bool:
        try:
            consumer.committed([TopicPartition(topic, 0)], timeout=15)
        except KafkaException:  # there is none yet, or it loads: librdkafka gives up
            return False
        return True

    def commit(as_group: str, offsets: list[int]) -> None:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": as_group})
        wait_until(lambda: is_served(consumer), "the group has a coordinator")
        for offset in offsets:
            # Long metadata, so that the segments of the offsets topic fill.
            consumer.commit(offsets=[TopicPartition(topic, 0, offset, metadata="m" * 4000)], asynchronous=False)
        consumer.close()

    def committed(as_group: str) -> int:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": as_group})
        (found,) = consumer.committed([TopicPartition(topic, 0)], timeout=15)
        consumer.close()
        return int(found.offset)

    def messages_of(as_group: str) -> list[int]:
        mark = b"\x00\x01" + len(as_group).to_bytes(2, "big") + as_group.encode()
        return [offset for offset, key, _ in read_all(broker, "__consumer_offsets") if key.startswith(mark)]

    commit(group, [100] * 1000)
    last = messages_of(group)[-1]
    commit(other, list(range(600)))
    left: list[int] = []
    wait_until(lambda: len(left) == 1, "the cleaner", lambda: left.__setitem__(slice(None), messages_of(group)))
    assert left == [last]
    broker.stop()
    broker.start()
    assert (committed(group), committed(other)) == (100, 599)


def test_a_cleaner_that_is_killed_loses_nothing(tmp_path: Path, read_all: Callable[..., Any]) -> None:
    """Killed whenever it is in the middle of rewriting a segment: the last acknowledged value of every key is there after it."""
    slow = QUICK_CLEANER | {"log.cleaner.io.max.bytes.per.second": "2000000"}
    broker = OttlaProcess(tmp_path / "data", config=slow)
    expected: dict[bytes, bytes] = {}
    topic, directory = "compacted", tmp_path / "data" / "compacted-0"
    broker.start()
    make_topic(broker, topic)
    rounds = itertools.count()

    def write() -> None:
        number = next(rounds)
        messages = [(f"key-{each}", f"{number}-{each}-".encode() + bytes(5_000)) for each in range(400)]
        produce(broker, topic, messages)
        expected.update((key.encode(), value) for key, value in messages)

    try:
        for _ in range(4):
            write()
            wait_until(lambda: list(directory.glob("*.cleaned")) or list(directory.glob("*.swap")), "a cleaning", doing=lambda: None)
            broker.kill()
            broker.start()
            messages = read_all(broker, topic)
            offsets = [offset for offset, _, _ in messages]
            assert offsets == sorted(set(offsets))
            assert {key: value for _, key, value in messages} == expected
        broker.stop()
        broker.config = QUICK_CLEANER
        broker.start()
        # And in the end it gets there: one message a key, but for what the active segment holds.
        wait_until(lambda: len(read_all(broker, topic)) <= 400 + SEGMENT_BYTES // 5_000, "the last cleaning", seconds=30)
        assert {key: value for _, key, value in read_all(broker, topic)} == expected
    finally:
        broker.kill()
