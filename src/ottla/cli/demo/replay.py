"""The producer: replays the flights into the topic at a steady pace, and after `release` as fast as it can.

It runs in a thread of its own and keeps what the broker has acknowledged: how many flights, and where each partition ends by that. It never
decides when the pace is over.
"""

import logging
import math
import threading
import time
from collections.abc import Iterable
from typing import Any

from ottla.cli.demo.input import FlightRecord

log = logging.getLogger(__name__)

_TICK_S = 0.05
_ANSWER_S = 20


class Pace:
    """When each of `total` flights may go out: `per_second` of them each second for the first two thirds, all of them after `release`.

    The last third goes out more and more slowly: however long the incidents take, new flights keep coming and the group stays at work.
    """

    def __init__(self, per_second: int, total: int) -> None:
        self._per_second = per_second
        self._total = total
        self._free = threading.Event()

    def release(self) -> None:
        """Remove the limit."""
        self._free.set()

    def due_s(self, number: int) -> float:
        """When flight `number` (from 0) is due, in seconds after the start."""
        steady = self._total * 2 // 3
        if number <= steady:
            return number / self._per_second
        rest = self._total - steady
        return (steady + rest * math.log(rest / (self._total - number))) / self._per_second

    def wait_until_due(self, number: int, started_s: float) -> None:
        """Return when flight `number` may go, `started_s` being the time.monotonic() of the start."""
        early_s = started_s + self.due_s(number) - time.monotonic()
        if early_s > 0:
            self._free.wait(early_s)


class Replay:
    """The replay's thread. `producer` is a confluent_kafka.Producer."""

    def __init__(self, producer: Any, topic: str, records: Iterable[FlightRecord], pace: Pace) -> None:
        self.acknowledged = 0
        self.end_offsets: dict[int, int] = {}
        self.failure: str | None = None
        self.is_done = False
        self._producer = producer
        self._topic = topic
        self._records = records
        self._pace = pace
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="replay", daemon=True)

    def start(self) -> None:
        """Begin to replay."""
        self._thread.start()

    def learn_partitions(self) -> None:
        """Ask for the topic's partitions now, not only after metadata_refresh_ms: later flights go to new partitions, too."""
        self._producer.list_topics(self._topic, timeout=_ANSWER_S)

    def stop(self) -> None:
        """End the thread, wherever it is."""
        self._stopping = True
        self._pace.release()
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            self._replay()
        except Exception as failure:  # noqa: BLE001 - the main thread checks `failure` and reports it
            self.failure = f"{type(failure).__name__}: {failure}"
        self.is_done = self.failure is None and not self._stopping

    def _replay(self) -> None:
        started_s = time.monotonic()
        for number, record in enumerate(self._records):
            self._pace.wait_until_due(number, started_s)
            if self._stopping or self.failure is not None:
                return
            self._send(record)
        while self._producer.flush(_TICK_S) and not self._stopping:
            pass

    def _send(self, record: FlightRecord) -> None:
        while not self._stopping:
            try:
                self._producer.produce(self._topic, record.value, record.key, timestamp=record.timestamp_ms, on_delivery=self._on_delivery)
            except BufferError:
                self._producer.poll(_TICK_S)
            else:
                self._producer.poll(0)
                return

    def _on_delivery(self, error: Any, message: Any) -> None:
        if error is None:
            self.acknowledged += 1
            self.end_offsets[message.partition()] = message.offset() + 1
        else:
            self.failure = str(error)


def new_producer(bootstrap_servers: str, *, metadata_refresh_ms: int) -> Any:
    """A producer that loses and doubles nothing, and places keys as the Java client does."""
    from confluent_kafka import Producer

    return Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "client.id": "replay",
            "enable.idempotence": True,
            "partitioner": "murmur2_random",
            "compression.type": "lz4",
            "linger.ms": 20,
            "logger": log,
            "topic.metadata.refresh.interval.ms": metadata_refresh_ms,
        }
    )
