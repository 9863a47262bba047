"""Messages: confluent-kafka's methods on columns."""

from typing import Any

import confluent_kafka
import pytest

from ottla.client.consumer.kafka_errors import KafkaError
from ottla.client.consumer.message import (
    OFFSET_INVALID,
    ErrorMessage,
    Message,
    TopicPartition,
    encode_group_metadata,
    key,
    keys,
    messages_of,
)
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol import model
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import encode_batch

ALL = [name for name in dir(confluent_kafka.Message) if not name.startswith(("_", "set_"))]
NAMES = ("topic", "partition", "offset", "key", "value", "headers", "timestamp", "error", "leader_epoch", "latency")


def test_the_methods_are_there() -> None:
    assert [name for name in dir(confluent_kafka.Message) if not hasattr(Message, name)] == []
    assert [name for name in NAMES if not hasattr(confluent_kafka.Message, name)] == []


@pytest.mark.conformance(
    "FetcherTest.testHeaders", "FetcherTest.testLeaderEpochInConsumerRecord", "FetcherTest.testMissingLeaderEpochInRecords"
)
def test_a_record() -> None:
    data = encode_batch([Record(5, 17, b"k", b"value", (Header("h", None),))], base_offset=5, leader_epoch=3)
    (columns,) = decode_plain(FetchedRecords(model.TopicPartition("t", 2), 5, 6, memoryview(bytes(data))))
    (message,) = messages_of(columns, 0, 1)  # type: ignore[arg-type]
    found = [getattr(message, name)() for name in NAMES]
    assert found == ["t", 2, 5, b"k", b"value", [("h", None)], (1, 17), None, 3, None]
    assert len(message) == 5


def test_messages_of_many_rows() -> None:
    data = encode_batch([Record(5 + row, 0, None, b"%d" % row) for row in range(4)], base_offset=5)
    (columns,) = decode_plain(FetchedRecords(model.TopicPartition("t", 2), 5, 9, memoryview(bytes(data))))
    made = messages_of(columns, 1, 3)  # type: ignore[arg-type]
    assert [(type(each), each.offset(), each.value()) for each in made] == [(Message, 6, b"1"), (Message, 7, b"2")]


def test_an_error_in_the_place_of_a_record() -> None:
    message = ErrorMessage(KafkaError(KafkaError._PARTITION_EOF), "t", 2, 9)
    found = [getattr(message, name)() for name in NAMES]
    assert found == ["t", 2, 9, None, b"Broker: No more messages", None, (0, 0), KafkaError._PARTITION_EOF, None, None]


def test_a_record_that_is_changed() -> None:
    data = encode_batch([Record(5, 17, b"k", b"value", (Header("h", None),))], base_offset=5, leader_epoch=3)
    (columns,) = decode_plain(FetchedRecords(model.TopicPartition("t", 2), 5, 6, memoryview(bytes(data))))
    (changed,), (other,) = messages_of(columns, 0, 1), messages_of(columns, 0, 1)  # type: ignore[arg-type]
    changed.set_key(1)
    changed.set_value("text")
    found = [getattr(changed, name)() for name in NAMES]
    assert found == ["t", 2, 5, 1, "text", [("h", None)], (1, 17), None, 3, None]
    changed.set_headers(None)
    assert (changed.headers(), len(changed)) == (None, 4)
    assert (other.key(), other.value(), other.headers()) == (b"k", b"value", [("h", None)])
    changed.set_topic("u")
    changed.set_error(KafkaError(3))
    assert (changed.topic(), changed.error(), changed.offset(), other.error()) == ("u", KafkaError(3), 5, None)


GIVEN: dict[str, Any] = {"key": b"k", "value": b"v", "headers": [("a", b"b")], "timestamp": (1, 2), "latency": 0.5, "leader_epoch": 3}


@pytest.mark.parametrize(
    "fields", [{}, {"topic": "t"}, {"topic": "t", "partition": 1, "offset": 5, **GIVEN}, {"error": confluent_kafka.KafkaError(3)}]
)
def test_a_message_of_a_test_is_as_confluent_kafkas(fields: dict[str, Any]) -> None:
    ours, theirs = Message(**fields), confluent_kafka.Message(**fields)
    assert [getattr(ours, name)() for name in ALL] == [getattr(theirs, name)() for name in ALL]
    assert ours == Message(**fields)
    ours.set_topic("other")
    assert ours != Message(**fields)
    for message in (ours, theirs):
        message.set_error("e")
        message.set_key(1)
    assert (ours.error(), ours.key(), ours.topic()) == (theirs.error(), theirs.key(), "other")


@pytest.mark.parametrize("arguments", [("t",), ("t", 1), ("t", 1, 5), ("t", 1, 5, "m", 3)])
def test_attributes_are_those_of_confluent_kafka(arguments: tuple[object, ...]) -> None:
    ours, theirs = TopicPartition(*arguments), confluent_kafka.TopicPartition(*arguments)  # type: ignore[arg-type]
    for name in ("topic", "partition", "offset", "metadata", "leader_epoch", "error"):
        assert getattr(ours, name) == getattr(theirs, name)
    assert repr(ours) == repr(theirs)


def test_partitions_are_equal_by_topic_and_number() -> None:
    assert TopicPartition("t", 1, 5) == TopicPartition("t", 1, 7) == confluent_kafka.TopicPartition("t", 1)
    assert TopicPartition("t", 1) != TopicPartition("t", 2)
    assert sorted([TopicPartition("t", 2), TopicPartition("t", 1)])[0].partition == 1
    assert len({TopicPartition("t", 1, 5), TopicPartition("t", 1)}) == 1


def test_keys() -> None:
    assert keys([TopicPartition("t", 1, 5), confluent_kafka.TopicPartition("u", 0)]) == [
        model.TopicPartition("t", 1),
        model.TopicPartition("u", 0),
    ]
    with pytest.raises(TypeError, match="expected a TopicPartition, not 't'"):
        key("t")
    assert TopicPartition("t").offset == OFFSET_INVALID


@pytest.mark.conformance("ConsumerCoordinatorTest.testGetGroupMetadata")
def test_the_bytes_are_those_of_librdkafka() -> None:
    consumer = confluent_kafka.Consumer({"group.id": "x"})
    try:
        assert encode_group_metadata("x", -1, "", None) == consumer.consumer_group_metadata()
    finally:
        consumer.close()


def test_a_static_member() -> None:
    assert encode_group_metadata("g", 3, "m", "i").endswith(b"g\0m\0\0i\0")
