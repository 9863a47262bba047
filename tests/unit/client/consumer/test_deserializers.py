"""Deserialisers: what they get, what the message becomes, and what their errors have."""

from typing import Any

import pytest
from confluent_kafka.serialization import IntegerDeserializer, MessageField, StringDeserializer

from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.kafka_errors import KafkaError, KeyDeserializationError, ValueDeserializationError
from ottla.client.consumer.message import Message, messages_of
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.model import Header, Record, TopicPartition
from ottla.protocol.records.batch import encode_batch


def message(key: bytes | None, value: bytes | None) -> Message:
    data = bytes(encode_batch([Record(0, 0, key, value, (Header("h", b"1"),))]))
    (columns,) = decode_plain(FetchedRecords(TopicPartition("t", 0), 0, 1, memoryview(data)))
    return messages_of(columns, 0, 1)[0]  # type: ignore[arg-type]


def test_what_a_deserialiser_gets() -> None:
    calls: list[Any] = []

    def note(data: bytes | None, context: Any) -> str:
        calls.append((data, context.topic, context.field, context.headers, f"{context.topic}-{context.field}"))
        return "made"

    made = message(b"k", None)
    Deserializers(key=note, value=note).apply(made)
    assert calls == [
        (b"k", "t", MessageField.KEY, [("h", b"1")], "t-key"),
        (None, "t", MessageField.VALUE, [("h", b"1")], "t-value"),
    ]
    assert (made.key(), made.value()) == ("made", "made")


def test_confluent_kafkas_own_are_taken() -> None:
    made = message(b"\x00\x00\x00\x07", "ü".encode())
    Deserializers(key=IntegerDeserializer(), value=StringDeserializer("utf_8")).apply(made)
    assert (made.key(), made.value(), made.offset()) == (7, "ü", 0)


def test_without_one_the_bytes_stay() -> None:
    made = message(b"k", b"v")
    Deserializers(value=StringDeserializer()).apply(made)
    assert (made.key(), made.value()) == (b"k", "v")
    assert not Deserializers()


@pytest.mark.parametrize(("field", "error"), [("key", KeyDeserializationError), ("value", ValueDeserializationError)])
def test_an_error_has_the_message_as_it_was(field: str, error: type[Exception]) -> None:
    made = message(b"k", b"v")
    with pytest.raises(error) as raised:
        Deserializers(**{field: lambda data, context: 1 // 0}).apply(made)
    found: Any = raised.value
    assert isinstance(found.exception, ZeroDivisionError)
    assert found.kafka_message is made
    assert made.value() == b"v"
    assert found.args[0].code() == getattr(KafkaError, f"_{field.upper()}_DESERIALIZATION")
