"""Writes records with a producer of confluent-kafka, and counts which of them were acknowledged."""

from collections.abc import Iterable
from functools import partial
from typing import Any, Final

from confluent_kafka import KafkaException

from ottla.cli.record_json import RecordToWrite
from ottla.cli.record_progress import RecordProgress

_WAIT_S: Final = 0.1
_SHOWN_MAX: Final = 5
"""How many failures are reported one by one."""


class Writing:
    """Records of one run into `topic`; `partition` None: where the partitioner puts each."""

    def __init__(self, producer: Any, topic: str, *, partition: int | None, progress: RecordProgress) -> None:
        self.failed = 0
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._progress = progress
        self._queued = 0

    @property
    def written(self) -> int:
        """How many were acknowledged; correct after `finish`."""
        return self._queued - self.failed

    def write(self, numbered: Iterable[tuple[int, RecordToWrite]]) -> None:
        """Queue records, waiting while the queue is full."""
        for number, record in numbered:
            self._queue(number, record)
            self._producer.poll(0)
            self._progress.add(1, len(record.value or b"") + len(record.key or b""))

    def finish(self) -> None:
        """Wait until each record is acknowledged or has failed, which its timeout bounds."""
        while self._producer.flush(1.0):
            continue

    def _queue(self, number: int, record: RecordToWrite) -> None:
        arguments = {"partition": self._partition, "timestamp": record.timestamp_ms}
        given = {name: value for name, value in arguments.items() if value is not None}
        while True:
            try:
                self._producer.produce(
                    self._topic,
                    record.value,
                    record.key,
                    headers=list(record.headers),
                    on_delivery=partial(self._delivered, number),
                    **given,
                )
            except BufferError:
                self._producer.poll(_WAIT_S)
                continue
            except KafkaException as error:
                self.fail(number, error.args[0].str())
            self._queued += 1
            return

    def fail(self, number: int, why: str) -> None:
        """A record was not written."""
        self.failed += 1
        if self.failed <= _SHOWN_MAX:
            self._progress.say(f"Error: line {number} was not written: {why}")

    def _delivered(self, number: int, error: Any, _message: Any) -> None:
        if error is not None:
            self.fail(number, error.str())
