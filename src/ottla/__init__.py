"""Ottla: Kafka consumer groups that you can run, see and replay, in Python.

This module loads nothing heavy: import `ottla.broker`, `ottla.spark` and the rest where you use them. `Consumer`, `AsyncConsumer` and what
belongs to them are loaded when they are first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ottla.client.async_consumer.consumer import AsyncConsumer as AsyncConsumer
    from ottla.client.async_consumer.listener import ConsumerRebalanceListener as ConsumerRebalanceListener
    from ottla.client.async_consumer.record import ConsumerRecord as ConsumerRecord
    from ottla.client.async_consumer.record import OffsetAndMetadata as OffsetAndMetadata
    from ottla.client.async_consumer.record import OffsetAndTimestamp as OffsetAndTimestamp
    from ottla.client.consumer.consumer import Consumer as Consumer
    from ottla.client.consumer.kafka_errors import KafkaError as KafkaError
    from ottla.client.consumer.kafka_errors import KafkaException as KafkaException
    from ottla.client.consumer.kafka_errors import KeyDeserializationError as KeyDeserializationError
    from ottla.client.consumer.kafka_errors import ValueDeserializationError as ValueDeserializationError
    from ottla.client.consumer.kafka_errors import WakeupException as WakeupException
    from ottla.client.consumer.message import OFFSET_BEGINNING as OFFSET_BEGINNING
    from ottla.client.consumer.message import OFFSET_END as OFFSET_END
    from ottla.client.consumer.message import OFFSET_INVALID as OFFSET_INVALID
    from ottla.client.consumer.message import OFFSET_STORED as OFFSET_STORED
    from ottla.client.consumer.message import TIMESTAMP_CREATE_TIME as TIMESTAMP_CREATE_TIME
    from ottla.client.consumer.message import TIMESTAMP_LOG_APPEND_TIME as TIMESTAMP_LOG_APPEND_TIME
    from ottla.client.consumer.message import TIMESTAMP_NOT_AVAILABLE as TIMESTAMP_NOT_AVAILABLE
    from ottla.client.consumer.message import Message as Message
    from ottla.client.consumer.message import TopicPartition as TopicPartition
    from ottla.client.consumer.monitoring import ThrottleEvent as ThrottleEvent

__version__ = "0.1.0"

_LAZY = {
    "AsyncConsumer": "async_consumer.consumer",
    "ConsumerRebalanceListener": "async_consumer.listener",
    "ConsumerRecord": "async_consumer.record",
    "OffsetAndMetadata": "async_consumer.record",
    "OffsetAndTimestamp": "async_consumer.record",
    "Consumer": "consumer.consumer",
    "KafkaError": "consumer.kafka_errors",
    "KafkaException": "consumer.kafka_errors",
    "KeyDeserializationError": "consumer.kafka_errors",
    "ValueDeserializationError": "consumer.kafka_errors",
    "WakeupException": "consumer.kafka_errors",
    "Message": "consumer.message",
    "TIMESTAMP_CREATE_TIME": "consumer.message",
    "TIMESTAMP_LOG_APPEND_TIME": "consumer.message",
    "TIMESTAMP_NOT_AVAILABLE": "consumer.message",
    "OFFSET_BEGINNING": "consumer.message",
    "OFFSET_END": "consumer.message",
    "OFFSET_INVALID": "consumer.message",
    "OFFSET_STORED": "consumer.message",
    "TopicPartition": "consumer.message",
    "ThrottleEvent": "consumer.monitoring",
}
"""Names of aiokafka, of confluent_kafka and of Java's consumer, and the modules of `ottla.client` that hold them."""


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"ottla.client.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'ottla' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(["__version__", *_LAZY])
