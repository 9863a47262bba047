"""The records of a chaos run: written all the time, remembered when they are acknowledged, and compared with what the group committed."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from ottla.testing.chaos.oracle import Place

RECORDS_PER_SECOND = 400
FLUSH_S = 60


class Ledger:
    """Records of one topic. `produced`: the values of those that were acknowledged, by their places."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.produced: dict[Place, str] = {}
        self._servers = bootstrap_servers
        self._topic = topic
        self._partitions = partitions

    @contextmanager
    def growing(self) -> Iterator[None]:
        """Write records in a thread. Raises AssertionError at the end when one of them was not acknowledged."""
        is_over = threading.Event()
        failures: list[BaseException] = []
        producing = threading.Thread(target=self._produce, args=(is_over, failures))
        producing.start()
        try:
            yield
        finally:
            is_over.set()
            producing.join()
        assert not failures, failures

    def _produce(self, is_over: threading.Event, failures: list[BaseException]) -> None:
        from confluent_kafka import KafkaError, Message, Producer

        producer = Producer({"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0})

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(RuntimeError(str(error)))
            else:
                self.produced[int(message.partition() or 0), int(message.offset() or 0)] = (message.value() or b"").decode()

        number = 0
        while not is_over.is_set():
            for _ in range(RECORDS_PER_SECOND // 20):
                producer.produce(self._topic, str(number).encode(), partition=number % self._partitions, on_delivery=delivered)
                number += 1
            producer.poll(0)
            is_over.wait(0.05)
        if producer.flush(FLUSH_S):
            failures.append(TimeoutError("records that the brokers never acknowledged"))

    def behind(self, group: str) -> dict[int, tuple[int, int]]:
        """Partitions whose committed offset is not their end, with both."""
        from confluent_kafka import Consumer as Watcher
        from confluent_kafka import KafkaException, TopicPartition

        ends: dict[int, int] = {}
        for partition, offset in self.produced:
            ends[partition] = max(ends.get(partition, 0), offset + 1)
        watcher = Watcher({"bootstrap.servers": self._servers, "group.id": group, "log_level": 0})
        try:
            found = watcher.committed([TopicPartition(self._topic, partition) for partition in ends], timeout=10)
        except KafkaException:  # the coordinator has just moved
            return {-1: (0, 0)}
        finally:
            watcher.close()
        return {each.partition: (each.offset, ends[each.partition]) for each in found if each.offset < ends[each.partition]}
