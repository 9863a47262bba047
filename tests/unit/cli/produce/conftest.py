"""A producer that acknowledges at `flush`."""

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException


class Producer:
    """Takes `queue_max` records until it is polled, fails those whose value is b"bad", and refuses b"large" at once."""

    def __init__(self, queue_max: int = 1_000) -> None:
        self.properties: Any = None
        self.produced: list[tuple[Any, ...]] = []
        self._queue_max = queue_max
        self._waiting: list[Any] = []

    def produce(self, topic: str, value: Any, key: Any, *, headers: Any, on_delivery: Any, **more: Any) -> None:
        if len(self._waiting) >= self._queue_max:
            raise BufferError
        if value == b"large":
            raise KafkaException(KafkaError(KafkaError.MSG_SIZE_TOO_LARGE))
        self.produced.append((topic, value, key, headers, more))
        self._waiting.append((on_delivery, KafkaError(KafkaError._MSG_TIMED_OUT) if value == b"bad" else None))

    def poll(self, timeout: float) -> None:
        if timeout:
            self.flush(timeout)

    def flush(self, _: float) -> int:
        for on_delivery, error in self._waiting:
            on_delivery(error, None)
        self._waiting.clear()
        return 0


@pytest.fixture
def producer() -> Producer:
    return Producer()


@pytest.fixture
def small_producer() -> Producer:
    return Producer(queue_max=2)
