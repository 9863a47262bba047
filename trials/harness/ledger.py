"""The records of a topic whose brokers and group are disturbed: written all the time, remembered when they are acknowledged."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from ottla.protocol.model import TopicPartition
from trials.harness.oracle import Place

RECORDS_PER_SECOND: Final = 200
PERIOD_S: Final = 0.05
FLUSH_S_MAX: Final = 60


class Ledger(threading.Thread):
    """Writes until `close`; `acknowledged` holds what the brokers said they have: values by their places."""

    def __init__(self, servers: str, topic: str, partitions: int, *, per_second: int = RECORDS_PER_SECOND) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[Place, str] = {}
        self.failures: list[str] = []
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._each_period = int(per_second * PERIOD_S)
        self._is_over = threading.Event()

    def run(self) -> None:
        from confluent_kafka import KafkaError, Message, Producer

        settings = {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 10, "reconnect.backoff.max.ms": 500}
        producer = Producer({**settings, "log_level": 0})

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(f"a record was not written: {error}")
            else:
                self.acknowledged[int(message.partition() or 0), int(message.offset() or 0)] = (message.value() or b"").decode()

        number = 0
        while not self._is_over.is_set():
            for _ in range(self._each_period):
                producer.produce(self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=delivered)
                number += 1
            producer.poll(0)
            self._is_over.wait(PERIOD_S)
        if producer.flush(FLUSH_S_MAX):
            self.failures.append("records that the brokers never acknowledged")

    def close(self) -> None:
        """Stop writing; every record is acknowledged then, or `failures` says otherwise."""
        self._is_over.set()
        self.join()

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Write records meanwhile. Raises AssertionError at the end when one of them was not acknowledged."""
        self.start()
        try:
            yield
        finally:
            self.close()
        assert not self.failures, self.failures

    def ends(self) -> dict[TopicPartition, int]:
        """The end of what is acknowledged in each partition."""
        ends: dict[TopicPartition, int] = {}
        for partition, offset in list(self.acknowledged):
            place = TopicPartition(self._topic, partition)
            ends[place] = max(ends.get(place, 0), offset + 1)
        return ends

    def behind(self, group: str) -> dict[int, tuple[int, int]]:
        """Partitions whose committed offset is not their end, with both."""
        from confluent_kafka import Consumer, KafkaException
        from confluent_kafka import TopicPartition as Committed

        ends = self.ends()
        reader = Consumer({"bootstrap.servers": self._servers, "group.id": group, "log_level": 0})
        try:
            committed = reader.committed([Committed(*place) for place in ends], timeout=10)
        except KafkaException:  # the coordinator has just moved
            return {-1: (0, 0)}
        finally:
            reader.close()
        offsets = {TopicPartition(place.topic, place.partition): place.offset for place in committed}
        return {place.partition: (offsets[place], end) for place, end in ends.items() if offsets[place] < end}
