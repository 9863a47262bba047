"""A topic's messages into one with fewer partitions: each key's order kept, and no group misses a message."""

import random
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic
from kafka.partitioner.default import murmur2

from ottla.broker import Broker
from ottla.cli.main import main
from ottla.spark.copy.job import TopicCopy
from ottla.spark.copy.writer import CopyError

RECORDS, SOURCE_PARTITIONS, TARGET_PARTITIONS = 2_000, 8, 3


def make(servers: str, name: str, partitions: int) -> None:
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)


def read(servers: str, topic: str, partitions: int) -> list[Any]:
    """All messages of a topic, partition by partition, by offset."""
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(topic, number, OFFSET_BEGINNING) for number in range(partitions)])
    messages: list[Any] = []
    at_end: set[int] = set()
    while len(at_end) < partitions:
        message = consumer.poll(10)
        assert message is not None
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            at_end.add(message.partition())
        else:
            messages.append(message)
    consumer.close()
    return sorted(messages, key=lambda message: (message.partition(), message.offset()))


def commit(servers: str, group: str, topic: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    consumer.commit(offsets=[TopicPartition(topic, number, offset) for number, offset in offsets.items()], asynchronous=False)
    consumer.close()


def committed(servers: str, group: str, topic: str, partitions: int) -> dict[int, int]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": group})
    found = consumer.committed([TopicPartition(topic, number) for number in range(partitions)], timeout=60)
    consumer.close()
    return {each.partition: each.offset for each in found}


@pytest.fixture
def servers() -> Iterator[str]:
    with Broker() as broker:
        make(broker.bootstrap_servers, "wide", SOURCE_PARTITIONS)
        make(broker.bootstrap_servers, "narrow", TARGET_PARTITIONS)
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "partitioner": "murmur2_random"})
        rng = random.Random(7)
        began_ms = int(time.time() * 1000)  # records of long ago would be retention's, if Spark took its time
        for number in range(RECORDS):
            key = None if number % 10 == 0 else b"key-%d" % rng.randrange(60)
            where = {"partition": rng.randrange(SOURCE_PARTITIONS)} if key is None else {}
            value = None if number % 50 == 0 else b"%d" % number
            stamp = began_ms + number - rng.randrange(20)  # times run backwards now and then
            producer.produce("wide", value, key, timestamp=stamp, headers=[("number", b"%d" % number)], **where)
        assert producer.flush(60) == 0
        yield broker.bootstrap_servers


def number(message: Any) -> int:
    return int(dict(message.headers())["number"])


@pytest.mark.parametrize("partitioner", ["murmur2", "crc32"])
def test_a_copy_keeps_the_order_of_keys_and_translates_offsets(spark, servers: str, tmp_path: Path, partitioner: str) -> None:
    source = read(servers, "wide", SOURCE_PARTITIONS)
    rng = random.Random(3)
    ends = dict.fromkeys(range(SOURCE_PARTITIONS), 0)
    for message in source:
        ends[message.partition()] = message.offset() + 1
    half = {number: rng.randrange(end + 1) for number, end in ends.items()}
    commit(servers, "half", "wide", half)
    commit(servers, "done", "wide", ends)
    commit(servers, "one-partition", "wide", {2: ends[2]})
    commit(servers, "elsewhere", "narrow", {0: 0})
    copy = TopicCopy(bootstrap_servers=servers, source="wide", target="narrow", directory=str(tmp_path), partitioner=partitioner)
    copied = copy.run(spark)
    assert copied.records == RECORDS
    assert set(copied.groups) == {"half", "done", "one-partition"}

    target = read(servers, "narrow", TARGET_PARTITIONS)
    by_number = {number(message): message for message in target}
    assert len(target) == len(by_number) == RECORDS
    for message in source:
        twin = by_number[number(message)]
        assert (twin.key(), twin.value(), twin.timestamp()) == (message.key(), message.value(), message.timestamp())
        if message.key() is None:
            assert twin.partition() == message.partition() % TARGET_PARTITIONS
        elif partitioner == "murmur2":
            assert twin.partition() == (murmur2(message.key()) & 0x7FFFFFFF) % TARGET_PARTITIONS
    for messages in (source, target):
        assert len({(message.key(), message.partition()) for message in messages if message.key()}) <= 60
    assert orders(source) == orders(target)

    for group, offsets in (("half", half), ("done", ends), ("one-partition", {2: ends[2]})):
        goes_on = committed(servers, group, "narrow", TARGET_PARTITIONS)
        unread = {number(message) for message in source if message.offset() >= offsets.get(message.partition(), 0)}
        for place in range(TARGET_PARTITIONS):
            left = [message for message in target if message.partition() == place and message.offset() >= goes_on[place]]
            assert {number(message) for message in target if message.partition() == place} & unread <= set(map(number, left))
            assert not left or number(left[0]) in unread, "it continues at the first record that it has not read"
    assert committed(servers, "done", "narrow", TARGET_PARTITIONS) == {
        place: sum(message.partition() == place for message in target) for place in range(TARGET_PARTITIONS)
    }
    with pytest.raises(CopyError, match="has records already"):
        copy.run(spark)


def orders(messages: list[Any]) -> dict[bytes, list[int]]:
    found: dict[bytes, list[int]] = defaultdict(list)
    for message in messages:
        if message.key() is not None:
            found[message.key()].append(number(message))
    return found


def test_obstacles_are_reported_before_anything_is_written(spark, servers: str, tmp_path: Path) -> None:
    with pytest.raises(CopyError, match="there is no topic nowhere: create it first"):
        TopicCopy(bootstrap_servers=servers, source="wide", target="nowhere", directory=str(tmp_path)).run(spark)
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "busy", "auto.offset.reset": "earliest", "session.timeout.ms": 6000})
    consumer.subscribe(["wide"])
    while consumer.poll(1) is None:
        continue
    consumer.commit(asynchronous=False)
    with pytest.raises(CopyError, match="group busy is Stable: stop its consumers first"):
        TopicCopy(bootstrap_servers=servers, source="wide", target="narrow", directory=str(tmp_path)).run(spark)
    consumer.close()
    assert read(servers, "narrow", TARGET_PARTITIONS) == []


@pytest.mark.usefixtures("session_of_commands")
def test_the_command_copies_and_prints_the_offsets_of_groups(servers: str) -> None:
    commit(servers, "mine", "wide", {0: 0})
    arguments = ["copy-topic", "wide", "narrow", "--bootstrap-server", servers, "--group", "mine"]
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 0, done.output
    assert f"{RECORDS} messages copied from wide to narrow\nmine: 0:0, 1:0, 2:0\n" in done.output
    again = CliRunner().invoke(main, arguments)
    assert again.exit_code == 1
    assert "narrow has records already: copy into an empty topic" in again.output
    assert CliRunner().invoke(main, [*arguments, "--no-groups"]).exit_code == 2
