"""`poll_arrow`: buffered records as one Arrow batch, from the decoder's columns without an object for each record."""

from typing import TYPE_CHECKING, Any, Final

from ottla.client.consumer.arrow.columns import ArrowColumns, join_batches, plain_batch
from ottla.client.consumer.conversions import event_message
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException
from ottla.client.consumer.polling import Taken
from ottla.client.engine.engine import Engine
from ottla.protocol.arrow.decoder import ROWS_MAX as ROWS_MAX

if TYPE_CHECKING:
    import pyarrow as pa

ENOUGH_ROWS: Final = 512
"""From so many rows on no further slice is begun: to join slices costs a copy, which pays for small ones alone."""


class TakenRecords(Taken):
    """Up to `count` records; what is there, once there is something."""

    def __init__(self, count: int, *, include_headers: bool) -> None:
        super().__init__()
        self._count = count
        self._include_headers = include_headers
        self._batches: list[pa.RecordBatch] = []

    @property
    def has_records(self) -> bool:
        return bool(self._batches)

    @property
    def is_complete(self) -> bool:
        return bool(self._batches)

    def take(self, engine: Engine) -> None:
        """Errors come before records, and are raised; ends of partitions are left out."""
        while events := self.take_events(engine, 1):
            error = event_message(events[0]).error()
            if error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
        for part in self.take_records(engine, self._count, has_records=False, enough=ENOUGH_ROWS) or ():
            if part.end > part.first:
                self._batches.append(self._batch(part.columns, part.first, part.end))

    def _batch(self, columns: Any, first: int, end: int) -> "pa.RecordBatch":
        if isinstance(columns, ArrowColumns):
            return columns.slice(first, end, include_headers=self._include_headers)
        return plain_batch(columns, first, end, include_headers=self._include_headers)

    def take_back(self, engine: Engine) -> None:
        """Undo `take`."""
        super().take_back(engine)
        self._batches.clear()

    def batch(self) -> "pa.RecordBatch | None":
        """The records, None without any."""
        return join_batches(self._batches) if self._batches else None
