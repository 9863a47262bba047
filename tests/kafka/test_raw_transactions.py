"""Transactions as Apache Kafka wrote them, read from both brokers: committed, aborted and still open, in every version.

The bytes of its log are appended to ours as they are: what a reader gets with them must be the same.
"""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

from ottla.broker import Broker
from ottla.protocol.records.batch import split_batches
from ottla.protocol.wire.api_keys import ApiKey
from ottla.testing.raw_client import RawClient, create_topic
from ottla.testing.waiting import wait_until

LATEST, EARLIEST, MAX_TIMESTAMP = -1, -2, -3
COMMITTED_RECORDS = 2 + 2 + 1 + 2
"""Below the open transaction: of no transaction, or of one that was committed."""

ALL_RECORDS = 23
"""18 records and five markers."""

pytestmark = pytest.mark.kafka


class Twin(NamedTuple):
    """One broker with the topic, whose id differs."""

    bootstrap_servers: str
    client: RawClient
    topic_id: Any


def write(bootstrap_servers: str, topic: str, name: Callable[[str], str]) -> list[Any]:
    """Overlapping transactions of several producers; those that are left open are handed out."""
    from confluent_kafka import Producer
    from confluent_kafka.admin import AdminClient, NewTopic

    servers = {"bootstrap.servers": bootstrap_servers, "log_level": 0}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producers = []
    for number in range(4):
        producer = Producer(servers | {"transactional.id": name(f"transactional-{number}"), "transaction.timeout.ms": 600_000})
        producer.init_transactions(30)
        producers.append(producer)
    plain = Producer(servers)

    def put(producer: Any, count: int = 2) -> None:
        for number in range(count):
            producer.produce(topic, b"%d" % number, partition=0)
        assert producer.flush(60) == 0

    first, second, third, fourth = producers
    put(plain)
    for producer in (first, second):
        producer.begin_transaction()
        put(producer)
    put(plain, 1)
    first.abort_transaction(60)
    second.commit_transaction(60)
    for producer in (first, third):
        producer.begin_transaction()
        put(producer, 1)
    first.abort_transaction(60)
    put(third)
    third.abort_transaction(60)
    put(plain)
    fourth.begin_transaction()
    put(fourth)
    second.begin_transaction()
    put(second)
    second.abort_transaction(60)
    put(plain, 1)
    return [fourth]


def fetch(client: RawClient, version: int, topic: str, topic_id: Any, offset: int, isolation_level: int) -> Any:
    part = {"partition": 0, "fetch_offset": offset, "partition_max_bytes": 1_000_000, "current_leader_epoch": -1, "last_fetched_epoch": -1}
    base = {
        "max_wait": 0,
        "min_bytes": 1,
        "max_bytes": 1_000_000,
        "replica_id": -1,
        "session_epoch": -1,
        "isolation_level": isolation_level,
    }
    (answered,) = client.call(
        ApiKey.FETCH, version, topics=[{"topic": topic, "topic_id": topic_id, "partitions": [part]}], **base
    ).responses
    return answered.partitions[0]


def comparable(part: Any) -> tuple[Any, ...]:
    """Of aborted transactions those with records in the answer: Apache Kafka also names some that come later, as its index is sparse."""
    headers = [header for _, header in split_batches(part.records or b"")]
    end = headers[-1].next_offset if headers else 0
    named = part.aborted_transactions
    aborted = None if named is None else sorted((each.producer_id, each.first_offset) for each in named if each.first_offset < end)
    return int(part.error_code), part.high_watermark, part.last_stable_offset, [header.base_offset for header in headers], aborted


@pytest.fixture(scope="module")
def twins(reference: Any) -> Iterator[tuple[Twin, Twin, str, int]]:
    """Ours and Apache Kafka's; the topic; the offset where a transaction is open."""
    topic = f"x-transactions-{id(reference)}"
    bootstrap_servers = reference.shared().bootstrap_servers
    left_open = write(bootstrap_servers, topic, lambda name: f"{topic}-{name}")
    with Broker() as broker, RawClient(bootstrap_servers) as theirs, RawClient(broker.bootstrap_servers) as ours:
        our_id = create_topic(ours, topic)
        (listed,) = theirs.call(ApiKey.METADATA, 12, topics=[{"name": topic}]).topics
        # Apache Kafka writes markers a moment after it has answered.
        wait_until(lambda: fetch(theirs, 12, topic, None, 0, 0).high_watermark == ALL_RECORDS, "the last marker")
        whole = fetch(theirs, 12, topic, None, 0, 0)
        data = b"".join(whole.records[at : at + header.size_bytes] for at, header in split_batches(whole.records))

        async def copy() -> Any:
            assert broker._task is not None
            cluster = broker._task.cluster
            partition = await cluster.partitions.open(cluster.cluster_metadata.topics[topic], 0)
            assert partition is not None
            return partition.log.append(bytearray(data), now_ms=0, from_client=False)

        assert broker._loop is not None
        asyncio.run_coroutine_threadsafe(copy(), broker._loop).result(60)
        our_twin, their_twin = Twin(broker.bootstrap_servers, ours, our_id), Twin(bootstrap_servers, theirs, listed.topic_id)
        yield our_twin, their_twin, topic, whole.last_stable_offset
    for producer in left_open:
        producer.abort_transaction(60)


@pytest.mark.parametrize("version", range(4, 19))
def test_fetch(twins: Any, version: int) -> None:
    ours, theirs, topic, stable_offset = twins

    def read(twin: Twin, offset: int, isolation_level: int) -> tuple[Any, ...]:
        return comparable(fetch(twin.client, version, topic, twin.topic_id, offset, isolation_level))

    end = read(theirs, 0, 0)[1]
    assert 0 < stable_offset < end
    for isolation_level in (0, 1):
        for offset in range(end + 2):
            assert read(ours, offset, isolation_level) == read(theirs, offset, isolation_level), (isolation_level, offset)
    assert len(read(theirs, 0, 1)[-1]) == 3


@pytest.mark.parametrize("version", range(2, 12))
def test_list_offsets(twins: Any, version: int) -> None:
    ours, theirs, topic, _ = twins

    def ask(twin: Twin, timestamp: int, isolation_level: int) -> tuple[int, ...]:
        asked = [{"partition_index": 0, "timestamp": timestamp, "current_leader_epoch": -1}]
        topics = [{"name": topic, "partitions": asked}]
        answer = twin.client.call(ApiKey.LIST_OFFSETS, version, replica_id=-1, isolation_level=isolation_level, topics=topics)
        part = answer.topics[0].partitions[0]
        return int(part.error_code), part.timestamp, part.offset, getattr(part, "leader_epoch", 0)

    records = fetch(ours.client, 12, topic, None, 0, 0).records
    times_ms = sorted({header.max_timestamp_ms for _, header in split_batches(records)})
    for isolation_level in (0, 1):
        for timestamp in (LATEST, EARLIEST, MAX_TIMESTAMP, 0, *times_ms, times_ms[-1] + 1):
            assert ask(ours, timestamp, isolation_level) == ask(theirs, timestamp, isolation_level), (isolation_level, timestamp)


def read_with_confluent(bootstrap_servers: str, topic: str) -> list[int]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "g", "isolation.level": "read_committed", "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    for _ in range(20):
        found += [each.offset() for each in consumer.consume(100, 0.1) if each.error() is None]
    consumer.close()
    return found


def read_with_kafka_python(bootstrap_servers: str, topic: str) -> list[int]:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed", consumer_timeout_ms=1000)
    partition = TopicPartition(topic, 0)
    consumer.assign([partition])
    consumer.seek(partition, 0)
    found = [record.offset for record in consumer]
    consumer.close()
    return found


def read_with_aiokafka(bootstrap_servers: str, topic: str) -> list[int]:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    async def read() -> list[int]:
        consumer = AIOKafkaConsumer(bootstrap_servers=bootstrap_servers, isolation_level="read_committed")
        await consumer.start()
        partition = TopicPartition(topic, 0)
        consumer.assign([partition])
        consumer.seek(partition, 0)
        found: list[int] = []
        for _ in range(20):
            for records in (await consumer.getmany(timeout_ms=100)).values():
                found += [record.offset for record in records]
        await consumer.stop()
        return found

    return asyncio.run(read())


@pytest.mark.parametrize("read", [read_with_confluent, read_with_kafka_python, read_with_aiokafka], ids=lambda read: read.__name__)
def test_consumers_of_what_is_committed(twins: Any, read: Callable[[str, str], list[int]]) -> None:
    ours, theirs, topic, _ = twins
    found = read(ours.bootstrap_servers, topic)
    assert found == read(theirs.bootstrap_servers, topic)
    assert len(found) == COMMITTED_RECORDS
