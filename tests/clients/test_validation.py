"""What real clients see of a topic's rules: their records in the topic's codec, and which of them were refused."""

from collections.abc import Callable
from typing import Any

import pytest

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def make_topic(bootstrap_servers: str, topic: str, **configs: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    settings = {name.replace("_", "."): value for name, value in configs.items()}
    admin = AdminClient({"bootstrap.servers": bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1, config=settings)])[topic].result(10)


def produce(bootstrap_servers: str, topic: str, records: list[tuple[bytes | None, bytes]], **settings: Any) -> list[str | None]:
    """The outcome of each record, by its place: None or the error's name."""
    from confluent_kafka import Producer

    outcomes: dict[bytes, str | None] = {}
    producer = Producer({"bootstrap.servers": bootstrap_servers, "log_level": 0, "linger.ms": 50, **settings})
    for key, value in records:
        producer.produce(
            topic, value, key, on_delivery=lambda error, message: outcomes.update({message.value(): error.name() if error else None})
        )
    assert producer.flush(20) == 0
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
    assert producer.flush(20) == 0
    assert errors == ["INVALID_TIMESTAMP"]
