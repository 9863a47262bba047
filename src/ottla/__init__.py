"""Ottla: Kafka consumer groups that you can run, see and replay, in Python.

This module loads nothing heavy: import `ottla.broker`, `ottla.spark` and the rest where you use them. `Consumer` and what belongs to it
are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.consumer.consumer import Consumer as Consumer
    from ottla.client.consumer.kafka_errors import KafkaError as KafkaError
    from ottla.client.consumer.kafka_errors import KafkaException as KafkaException
    from ottla.client.consumer.kafka_errors import KeyDeserializationError as KeyDeserializationError
    from ottla.client.consumer.kafka_errors import ValueDeserializationError as ValueDeserializationError
    from ottla.client.consumer.kafka_errors import WakeupException as WakeupException
    from ottla.client.consumer.message import TIMESTAMP_CREATE_TIME as TIMESTAMP_CREATE_TIME
    from ottla.client.consumer.message import TIMESTAMP_LOG_APPEND_TIME as TIMESTAMP_LOG_APPEND_TIME
    from ottla.client.consumer.message import TIMESTAMP_NOT_AVAILABLE as TIMESTAMP_NOT_AVAILABLE
    from ottla.client.consumer.message import Message as Message
    from ottla.client.consumer.topic_partition import OFFSET_BEGINNING as OFFSET_BEGINNING
    from ottla.client.consumer.topic_partition import OFFSET_END as OFFSET_END
    from ottla.client.consumer.topic_partition import OFFSET_INVALID as OFFSET_INVALID
    from ottla.client.consumer.topic_partition import OFFSET_STORED as OFFSET_STORED
    from ottla.client.consumer.topic_partition import TopicPartition as TopicPartition

__version__ = "0.1.0"

_LAZY = {
    "Consumer": "consumer",
    "KafkaError": "kafka_errors",
    "KafkaException": "kafka_errors",
    "KeyDeserializationError": "kafka_errors",
    "ValueDeserializationError": "kafka_errors",
    "WakeupException": "kafka_errors",
    "Message": "message",
    "TIMESTAMP_CREATE_TIME": "message",
    "TIMESTAMP_LOG_APPEND_TIME": "message",
    "TIMESTAMP_NOT_AVAILABLE": "message",
    "OFFSET_BEGINNING": "topic_partition",
    "OFFSET_END": "topic_partition",
    "OFFSET_INVALID": "topic_partition",
    "OFFSET_STORED": "topic_partition",
    "TopicPartition": "topic_partition",
}
"""Names of confluent_kafka and of Java's consumer, and the modules of `ottla.client.consumer` that hold them."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"ottla.client.consumer.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *_LAZY])
