"""Reading with real clients: busy and quiet partitions, sessions that last, records that are deleted under a reader."""

import random
from collections.abc import Callable
from typing import Any

import pytest

from ottla.broker import Broker
from ottla.testing.waiting import wait_until

PARTITIONS = 12
ROUNDS = 25


def write_in_rounds(library: Any, topic: str, member: Any) -> dict[int, list[bytes]]:
    """A few partitions get records in each round, one of them in all rounds; what the member got, by partition."""
    rng = random.Random(5)
    written: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}
    received: dict[int, list[bytes]] = {partition: [] for partition in range(PARTITIONS)}

    def poll() -> None:
        for partition, offset, value in member.poll():
            assert offset == len(received[partition]), "each record once, in order"
            received[partition].append(value)

    for number in range(ROUNDS):
        partitions = {0, *rng.choices(range(1, PARTITIONS), k=number % 4)}
        records = [(partition, b"%d-%d" % (number, partition)) for partition in sorted(partitions)]
        library.produce(topic, records)
        for partition, value in records:
            written[partition].append(value)
        if number % 5 == 0:
            poll()
    wait_until(lambda: received == written, f"all records of {topic}", poll)
    return received


def test_busy_and_quiet_partitions(library: Any, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    library.create_topic(topic, PARTITIONS)
    member = library.member(unique_name("group"), topic, "range")
    received = write_in_rounds(library, topic, member)
    assert len(received[0]) == ROUNDS
    member.close()


@pytest.mark.parametrize(("name", "has_sessions"), [("kafka-python", True), ("confluent-kafka", False), ("aiokafka", False)])
def test_sessions_that_clients_make(library_on: Callable[..., Any], name: str, has_sessions: bool) -> None:
    with Broker() as broker:
        library = library_on(broker, name)
        library.create_topic("t", PARTITIONS)
        member = library.member("g", "t", "range")
        write_in_rounds(library, "t", member)
        task = broker._task
        assert task is not None
        assert (len(task.cluster.fetch_sessions[1]) > 0) is has_sessions
        member.close()


@pytest.mark.parametrize("slots", ["0", "1"])
def test_readers_without_a_place_for_their_session(library_on: Callable[..., Any], slots: str) -> None:
    with Broker(config={"max.incremental.fetch.session.cache.slots": slots}) as broker:
        library = library_on(broker, "kafka-python")
        for topic in ("t", "u"):
            library.create_topic(topic, PARTITIONS)
        members = [library.member(f"g-{topic}", topic, "range") for topic in ("t", "u")]
        for topic, member in zip(("t", "u"), members):
            write_in_rounds(library, topic, member)
        for member in members:
            member.close()


def test_records_that_are_deleted(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = unique_name("topic")
    servers = {"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer(servers | {"enable.idempotence": True})
    for number in range(20):
        producer.produce(topic, b"%d" % number, partition=0)
    assert producer.flush(60) == 0
    deleted = admin.delete_records([TopicPartition(topic, 0, 12)])
    assert [future.result(60).low_watermark for future in deleted.values()] == [12]
    consumer = Consumer(servers | {"group.id": unique_name("group"), "auto.offset.reset": "earliest", "isolation.level": "read_committed"})
    assert consumer.get_watermark_offsets(TopicPartition(topic, 0), timeout=60) == (12, 20)
    consumer.assign([TopicPartition(topic, 0, 3)])  # where nothing is any more
    received: list[bytes | None] = []
    wait_until(lambda: len(received) == 8, "what is left", lambda: received.extend(each.value() for each in consumer.consume(20, 0.1)))
    assert received == [b"%d" % number for number in range(12, 20)]
    consumer.close()


def test_a_reader_of_large_answers_waits_only_at_the_end(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition
    from confluent_kafka.admin import AdminClient, NewTopic

    topic = unique_name("topic")
    servers = {"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0}
    admin = AdminClient(servers)
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
    producer = Producer(servers | {"enable.idempotence": True, "batch.size": 100_000, "linger.ms": 5})
    for _ in range(1_000):
        producer.produce(topic, bytes(10_000), partition=0)
    assert producer.flush(60) == 0
    # Longer than this test may take: a broker that waits for a full response although there is more never gets to the end.
    patient = {"fetch.min.bytes": 1 << 20, "fetch.wait.max.ms": 40_000, "max.partition.fetch.bytes": 1 << 20}
    consumer = Consumer(servers | patient | {"group.id": unique_name("group"), "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    received: list[int] = []
    wait_until(lambda: len(received) > 800, "most of it", lambda: received.extend(each.offset() for each in consumer.consume(500, 0.1)))
    assert received == list(range(len(received)))
    consumer.close()
