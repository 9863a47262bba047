"""The worker's side of a copy: writes records in their order, and maps each to its offset in the target.

The partition of each record is in its row. It writes with the sink's `RecordSender`, whose producer is idempotent, so that retries after a
late response duplicate no record.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ottla.spark.copy.steps import OFFSET_MAP, TARGET
from ottla.spark.sink.producer_settings import parse_producer_settings

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.sink.rows import ProduceArguments
    from ottla.spark.sink.senders import RecordSender

_WRITTEN: Final = ("key", "value", "headers", TARGET.name)


class CopyError(Exception):
    """A copy that cannot continue; written records stay."""


@dataclass(frozen=True)
class CopyWriter:
    """For `mapInArrow`: rows of ROUTED in, rows of OFFSET_MAP out. Raises CopyError."""

    bootstrap_servers: str
    topic: str

    def __call__(self, batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark import TaskContext

        from ottla.spark.sink.senders import DeliveryError, RecordSender

        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            raise CopyError(f"a task of this copy failed after it had written: delete {self.topic} and copy again")
        settings = parse_producer_settings({"bootstrap.servers": self.bootstrap_servers, "linger.ms": "20"})
        sender = RecordSender(settings, reports_all=True)
        names = [field.name for field in OFFSET_MAP.fields]
        types = [pa.int32(), pa.int64(), pa.int32(), pa.int64()]
        for batch in batches:
            delivered = _Delivered(sender)
            try:
                sender.check_topics([self.topic])
                sender.send_all(_rows(batch, self.topic, delivered))
                sender.finish()
            except DeliveryError as error:
                raise CopyError(f"cannot write to {self.topic}: {error}") from error
            yield pa.RecordBatch.from_arrays([pa.array(column, kind) for column, kind in zip(delivered.lists, types, strict=True)], names)


def _rows(batch: "pa.RecordBatch", topic: str, delivered: "_Delivered") -> "Iterator[ProduceArguments]":
    """The sink's rows, with their own timestamps and a callback each."""
    import pyarrow as pa

    from ottla.spark.sink.rows import produce_arguments

    # Whole numbers: a float would lose a millisecond now and then.
    times_us = batch.column("timestamp").cast(pa.timestamp("us", "UTC")).cast(pa.int64()).to_pylist()
    places = zip(batch.column("partition").to_pylist(), batch.column("offset").to_pylist(), times_us)
    target = batch.select(_WRITTEN).rename_columns([*_WRITTEN[:-1], "partition"])
    for (_, value, key, partition, _, _, _, headers), (source, offset, time_us) in zip(produce_arguments(target, topic), places):
        yield topic, value, key, partition, delivered.note(source, offset), None, time_us // 1000, headers


class _Delivered:
    """Collects the rows of the offset map for one batch, and reports failures to the sender."""

    def __init__(self, sender: "RecordSender") -> None:
        self.lists: tuple[list[int], list[int], list[int], list[int]] = ([], [], [], [])
        self._sender = sender

    def note(self, partition: int, offset: int) -> Any:
        def delivered(error: Any, message: Any) -> None:
            if error is not None:
                self._sender.fail(f"record {offset} of partition {partition}: {error}")
                return
            for column, value in zip(self.lists, (partition, offset, message.partition(), message.offset()), strict=True):
                column.append(value)

        return delivered
