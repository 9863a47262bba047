"""Deserialised and intercepted messages: nothing is lost when a message cannot be handed out."""

from typing import Any

import pytest

from ottla.client.consumer.deserializers import Deserializers
from ottla.client.consumer.interceptors import Interceptors
from ottla.client.consumer.kafka_errors import KafkaError, ValueDeserializationError
from ottla.client.consumer.message import ErrorMessage, Message
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.consumer.processing import MessageProcessing
from ottla.core.client.fetch_values import FetchedRecords
from ottla.core.model import Record, TopicPartition
from ottla.core.records.batch import encode_batch


class FakePoller:
    """Hands out messages with these values; a handed back one comes again."""

    def __init__(self, *values: bytes) -> None:
        data = bytes(encode_batch([Record(at, 0, None, value) for at, value in enumerate(values)]))
        (columns,) = decode_plain(FetchedRecords(TopicPartition("t", 0), 0, 9, memoryview(data)))
        self.left: list[Message] = [Message(columns, row) for row in range(len(values))]  # type: ignore[arg-type]
        self.in_hand: list[int] = []

    def poll(self, timeout: float | None, in_hand: int = 0) -> Message | None:
        self.in_hand.append(in_hand)
        return self.left.pop(0) if self.left else None

    def consume(self, count: int, timeout: float | None) -> list[Message]:
        taken, self.left = self.left[:count], self.left[count:]
        return taken

    def hand_back(self, message: Message) -> None:
        self.left.insert(0, message)


def number(data: bytes | None, context: Any) -> int:
    return int(data or b"")


def processing(poller: FakePoller, *interceptors: Any, deserializer: Any = number) -> MessageProcessing:
    return MessageProcessing(poller, Deserializers(value=deserializer), Interceptors(interceptors))  # type: ignore[arg-type]


@pytest.mark.conformance("FetcherTest.testFetchedRecordsRaisesOnSerializationErrors")
def test_messages_before_one_that_cannot_be_deserialised_come_first() -> None:
    poller = FakePoller(b"1", b"2", b"x", b"4")
    made = processing(poller)
    assert [each.value() for each in made.consume(9, 0)] == [1, 2]
    with pytest.raises(ValueDeserializationError) as raised:
        made.consume(9, 0)
    assert raised.value.kafka_message.offset() == 2
    assert [each.value() for each in made.consume(9, 0)] == [4]
    assert poller.in_hand == [0, 1, 2, 0, 0, 1], "what is in hand is not processed yet"


def test_poll_raises_and_goes_on_behind_the_message() -> None:
    made = processing(FakePoller(b"x", b"4"))
    with pytest.raises(ValueDeserializationError):
        made.poll(0)
    message = made.poll(0)
    assert message is not None
    assert message.value() == 4
    assert made.poll(0) is None


def test_errors_in_the_place_of_a_message_pass() -> None:
    poller = FakePoller(b"1")
    poller.left = [ErrorMessage(KafkaError(KafkaError._PARTITION_EOF))]
    (message,) = processing(poller).consume(1, None)
    assert message.error() == KafkaError._PARTITION_EOF


class Even:
    """Lets even numbers through."""

    def on_consume(self, messages: list[Message]) -> list[Message]:
        return [each for each in messages if int(each.value() or 0) % 2 == 0]


def test_poll_goes_on_to_the_next_message_that_the_interceptors_let_through() -> None:
    made = processing(FakePoller(b"1", b"3", b"4", b"5"), Even())
    message = made.poll(None)
    assert message is not None
    assert message.value() == 4
    assert made.poll(0) is None


def test_interceptors_alone_get_what_is_consumed_at_once() -> None:
    made = processing(FakePoller(b"1", b"2", b"4"), Even(), deserializer=None)
    assert [each.value() for each in made.consume(3, 0)] == [b"2", b"4"]
