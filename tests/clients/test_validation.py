"""What real clients see of a topic's rules: their records in the topic's codec, and which of them were refused."""

import time
from collections.abc import Callable
from typing import Any

import pytest

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def make_topic(bootstrap_servers: str, topic: str, **configs: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(60)


def produce(bootstrap_servers: str, topic: str, records: list[tuple[bytes | None, bytes]], **settings: Any) -> list[str | None]:
    """The outcome of each record, by its place: None or the error's name."""
    from confluent_kafka import Producer

    outcomes: dict[bytes, str | None] = {}
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0, "linger.ms": 50, **settings})
    for key, value in records:
        producer.produce(
            topic, value, key, on_delivery=lambda error, message: outcomes.update({message.value(): error.name() if error else None})
        )
    assert producer.flush(60) == 0
    return [outcomes[value] for _, value in records]


def consume(bootstrap_servers: str, topic: str, count: int) -> list[bytes]:
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap_servers, "group.id": topic, "log_level": 0})
    consumer.assign([TopicPartition(topic, 0, 0)])
    values = [message.value() for message in consumer.consume(count, 20)]
    consumer.close()
    return values


@pytest.mark.parametrize("compression_type", ["uncompressed", "gzip", "snappy", "lz4", "zstd"])
def test_every_codec_arrives_in_the_topics(kafka_broker: Any, unique_name: Callable[[str], str], compression_type: str) -> None:
    topic = unique_name("topic")
    make_topic(kafka_broker.bootstrap_servers, topic, compression_type=compression_type)
    wanted = []
    for codec in CODECS:
        values = [f"{codec} {number} {'x' * 200}".encode() for number in range(50)]
        idempotence = {"enable.idempotence": codec != "gzip"}
        assert produce(
            kafka_broker.bootstrap_servers, topic, [(b"k", value) for value in values], **{"compression.type": codec}, **idempotence
        ) == [None] * len(values)
        wanted += values
    assert consume(kafka_broker.bootstrap_servers, topic, len(wanted)) == wanted


def test_a_record_without_a_key_fails_where_keys_are_needed(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    make_topic(kafka_broker.bootstrap_servers, topic, cleanup_policy="compact")
    assert produce(kafka_broker.bootstrap_servers, topic, [(None, b"keyless")]) == ["INVALID_RECORD"]
    assert produce(kafka_broker.bootstrap_servers, topic, [(b"k", b"keyed")]) == [None]
    assert consume(kafka_broker.bootstrap_servers, topic, 1) == [b"keyed"]


def test_a_record_from_the_future_fails(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Producer

    topic = unique_name("topic")
    make_topic(kafka_broker.bootstrap_servers, topic)
    errors: list[str | None] = []
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    producer.produce(topic, b"v", timestamp=4_000_000_000_000, on_delivery=lambda error, _: errors.append(error.name() if error else None))
    assert producer.flush(60) == 0
    assert errors == ["INVALID_TIMESTAMP"]


DAY_MS = 86_400_000
LARGE = {"batch.num.messages": 100_000, "batch.size": 900_000, "message.max.bytes": 1_000_000, "linger.ms": 1000}


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_large_batches_of_a_compacted_topic_arrive_in_their_order(kafka_broker: Any, unique_name: Callable[[str], str], codec: str) -> None:
    topic = unique_name("topic")
    make_topic(kafka_broker.bootstrap_servers, topic, cleanup_policy="compact")
    values = [b"%06d" % number + b"x" * 90 for number in range(20_000)]
    records: list[tuple[bytes | None, bytes]] = [(value[:6], value) for value in values]
    settings = {**LARGE, "compression.type": codec, "enable.idempotence": True}
    assert produce(kafka_broker.bootstrap_servers, topic, records, **settings) == [None] * len(values)
    assert consume(kafka_broker.bootstrap_servers, topic, len(values)) == values


def test_a_record_without_a_key_in_a_large_batch(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    topic = unique_name("topic")
    make_topic(kafka_broker.bootstrap_servers, topic, cleanup_policy="compact")
    values = [b"%06d" % number + b"x" * 90 for number in range(5_000)]
    records = [(None if number == 4_000 else b"k", value) for number, value in enumerate(values)]
    outcomes = produce(kafka_broker.bootstrap_servers, topic, records, **LARGE, **{"compression.type": "zstd"})
    # The client fails the whole batch, and decides how many there are.
    assert outcomes[4_000] == "INVALID_RECORD"
    assert set(outcomes) <= {"INVALID_RECORD", None}
    stored = outcomes.count(None)
    assert consume(kafka_broker.bootstrap_servers, topic, stored) == [value for value, outcome in zip(values, outcomes) if outcome is None]


def test_a_timestamp_far_ahead_in_a_large_batch(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Producer

    topic = unique_name("topic")
    make_topic(kafka_broker.bootstrap_servers, topic)
    settings = {**LARGE, "bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0, "compression.type": "gzip"}
    now_ms = int(time.time() * 1000)
    outcomes: dict[bytes, str | None] = {}
    producer = Producer(settings)
    for number in range(2_000):
        producer.produce(
            topic,
            b"%04d" % number + bytes(100),
            timestamp=now_ms + (2 * DAY_MS if number == 1_500 else 0),
            on_delivery=lambda error, message: outcomes.update({message.value()[:4]: error.name() if error else None}),
        )
    assert producer.flush(60) == 0
    assert len(outcomes) == 2_000
    assert outcomes[b"1500"] == "INVALID_TIMESTAMP"
    assert set(outcomes.values()) <= {"INVALID_TIMESTAMP", None}


def test_offsets_by_timestamp_in_large_batches(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    from confluent_kafka import Consumer, Producer, TopicPartition

    topic = unique_name("topic")
    make_topic(kafka_broker.bootstrap_servers, topic)
    producer = Producer({**LARGE, "bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0, "compression.type": "zstd"})
    start_ms = 1_700_000_000_000
    for number in range(20_000):
        producer.produce(topic, b"x" * 50, timestamp=start_ms + number)
    assert producer.flush(60) == 0
    consumer = Consumer({"bootstrap.servers": kafka_broker.bootstrap_servers, "group.id": topic, "log_level": 0})
    for number in (0, 1, 9_999, 19_999):
        (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, start_ms + number)], timeout=20)
        assert (found.error, found.offset) == (None, number)
    (found,) = consumer.offsets_for_times([TopicPartition(topic, 0, start_ms + 20_000)], timeout=20)
    assert found.offset == -1
    consumer.close()
