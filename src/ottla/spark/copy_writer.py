"""The worker's side of a copy: writes records in the order in which they come, and tells where each of them lies now.

It decides nothing: the partition of each record is in its row. Records are written by confluent-kafka's idempotent producer, so that a
broker that answers late makes no second copy of one.
"""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ottla.spark.copying import OFFSET_MAP

if TYPE_CHECKING:
    import pyarrow as pa

DELIVERY_S_MAX = 120
_WAITING_S = 0.1
_EPOCH = datetime.datetime.fromtimestamp(0, datetime.UTC)
_MILLISECOND = datetime.timedelta(milliseconds=1)


class CopyError(Exception):
    """A copy that cannot go on; what was written so far stays."""


@dataclass(frozen=True)
class CopyWriter:
    """For `mapInArrow`: rows of ROUTED in, rows of OFFSET_MAP out. Raises CopyError."""

    bootstrap_servers: str
    topic: str

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from confluent_kafka import Producer
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            raise CopyError(f"a task of this copy failed after it had written: delete {self.topic} and copy again")
        settings = {"bootstrap.servers": self.bootstrap_servers, "enable.idempotence": True, "linger.ms": 20, "log_level": 0}
        producer = Producer(settings)
        names = [field.name for field in OFFSET_MAP.fields]
        types = [pa.int32(), pa.int64(), pa.int32(), pa.int64()]
        for batch in batches:
            columns = _Delivered()
            for row in batch.to_pylist():
                self._produce(producer, row, columns)
            if producer.flush(DELIVERY_S_MAX):
                raise CopyError(f"records of {self.topic} were not acknowledged within {DELIVERY_S_MAX} s")
            columns.raise_failure(self.topic)
            yield pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in zip(columns.lists, types, strict=True)], names)

    def _produce(self, producer: Any, row: dict[str, Any], delivered: "_Delivered") -> None:
        headers = [(header["key"], header["value"]) for header in row["headers"] or ()]
        arguments = {
            "key": row["key"],
            "value": row["value"],
            "headers": headers,
            "partition": row["target_partition"],
            "timestamp": (row["timestamp"] - _EPOCH) // _MILLISECOND,  # exactly: a float would lose a millisecond now and then
            "on_delivery": delivered.note(row["partition"], row["offset"]),
        }
        while True:
            try:
                producer.produce(self.topic, **arguments)
                return
            except BufferError:  # its queue is full: let it send
                producer.poll(_WAITING_S)


class _Delivered:
    """The rows of the map for one batch, and the first failure."""

    def __init__(self) -> None:
        self.lists: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
        self._failure: str | None = None

    def note(self, partition: int, offset: int) -> Any:
        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._failure = self._failure or f"record {offset} of partition {partition}: {error}"
                return
            for column, value in zip(self.lists, (partition, offset, message.partition(), message.offset()), strict=True):
                column.append(value)

        return delivered

    def raise_failure(self, topic: str) -> None:
        if self._failure is not None:
            raise CopyError(f"cannot write to {topic}: {self._failure}")
