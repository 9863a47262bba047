"""`key.deserializer` and `value.deserializer`, as confluent-kafka's DeserializingConsumer takes them, its own ones included."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from ottla.client.consumer.kafka_errors import KafkaError, KeyDeserializationError, ValueDeserializationError
from ottla.client.consumer.message import Message

Deserializer = Callable[[bytes | None, Any], Any]
"""(bytes, SerializationContext) -> the object that `Message.key` or `Message.value` gives."""


class MessageField(StrEnum):
    """What is deserialised."""

    NONE = "none"
    KEY = "key"
    VALUE = "value"


class SerializationContext:
    """What a deserialiser may want to know of a message."""

    __slots__ = ("_message", "field")

    def __init__(self, message: Message, field: MessageField) -> None:
        self._message = message
        self.field = field

    @property
    def topic(self) -> str | None:
        """The topic's name."""
        return self._message.topic()

    @property
    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Names and values of the message's headers, None without any."""
        return self._message.headers()


@dataclass(frozen=True, slots=True)
class Deserializers:
    """A consumer's deserialisers; without one keys or values stay bytes. They get None for null."""

    key: Deserializer | None = None
    value: Deserializer | None = None

    def __bool__(self) -> bool:
        return self.key is not None or self.value is not None

    def apply(self, message: Message) -> None:
        """Replace key and value of a message. Raises KeyDeserializationError, ValueDeserializationError: they have it as it was."""
        context = SerializationContext(message, MessageField.KEY)
        key, value = message.key(), message.value()
        if self.key is not None:
            try:
                key = self.key(key, context)
            except Exception as error:
                raise KeyDeserializationError(KafkaError(KafkaError._KEY_DESERIALIZATION, str(error)), error, message) from error
        if self.value is not None:
            context.field = MessageField.VALUE
            try:
                value = self.value(value, context)
            except Exception as error:
                raise ValueDeserializationError(KafkaError(KafkaError._VALUE_DESERIALIZATION, str(error)), error, message) from error
        message.set_key(key)
        message.set_value(value)
