"""The topic of the broker's own metadata: no client makes it, writes to it or deletes it, and both brokers say so in the same way."""

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Producer
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

METADATA_TOPIC = "__cluster_metadata"


def refused(futures: dict[str, "Future[Any]"]) -> int:
    with pytest.raises(KafkaException) as failed:
        futures[METADATA_TOPIC].result(60)
    code: int = failed.value.args[0].code()
    return code


def test_no_client_reaches_the_metadata_topic(kafka_broker: Any, unique_name: Callable[[str], str]) -> None:
    admin = AdminClient({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0})
    assert refused(admin.create_topics([NewTopic(METADATA_TOPIC, 1, 1)])) == KafkaError.INVALID_REQUEST
    assert refused(admin.delete_topics([METADATA_TOPIC])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    assert refused(admin.create_partitions([NewPartitions(METADATA_TOPIC, 3)])) == KafkaError.UNKNOWN_TOPIC_OR_PART
    # A producer asks for the topic's metadata with leave to create it.
    producer = Producer({"bootstrap.servers": kafka_broker.bootstrap_servers, "log_level": 0, "message.timeout.ms": 2000})
    failures: list[Any] = []
    producer.produce(METADATA_TOPIC, b"x", on_delivery=lambda error, _: failures.append(error.code()))
    producer.flush(60)
    assert set(failures) <= {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._MSG_TIMED_OUT}
    assert len(failures) == 1
    assert METADATA_TOPIC not in admin.list_topics(timeout=60).topics
    # Its log is whole: topics can still be made.
    topic = unique_name("after")
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(60)
