"""Records for a group that is to be disturbed, and what the brokers acknowledged of them."""

import threading
from typing import Final

from ottla.core.model import TopicPartition
from ottla.testing.streaming_kills.oracle import Place

RECORDS_PER_SECOND: Final = 200


class Producer(threading.Thread):
    """Writes until `close`; `acknowledged` holds what the broker said it has."""

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        super().__init__(daemon=True)
        self.acknowledged: dict[Place, str] = {}
        self.failures: list[str] = []
        self._servers = servers
        self._topic = topic
        self._partitions = partitions
        self._is_over = threading.Event()

    def run(self) -> None:
        from confluent_kafka import KafkaError, Message
        from confluent_kafka import Producer as Client

        settings = {"bootstrap.servers": self._servers, "enable.idempotence": True, "linger.ms": 10, "reconnect.backoff.max.ms": 500}
        client = Client({**settings, "log_level": 0})

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                self.failures.append(f"a record was not written: {error}")
            else:
                self.acknowledged[int(message.partition() or 0), int(message.offset() or 0)] = (message.value() or b"").decode()

        number = 0
        while not self._is_over.is_set():
            for _ in range(RECORDS_PER_SECOND // 20):
                client.produce(self._topic, b"%d" % number, partition=number % self._partitions, on_delivery=delivered)
                number += 1
            client.poll(0)
            self._is_over.wait(0.05)
        if client.flush(60):
            self.failures.append("records that the broker never acknowledged")

    def close(self) -> None:
        """Stop writing; every record is acknowledged then, or `failures` says otherwise."""
        self._is_over.set()
        self.join()

    def ends(self) -> dict[TopicPartition, int]:
        """The end of what is acknowledged in each partition."""
        ends: dict[TopicPartition, int] = {}
        for partition, offset in list(self.acknowledged):
            place = TopicPartition(self._topic, partition)
            ends[place] = max(ends.get(place, 0), offset + 1)
        return ends
