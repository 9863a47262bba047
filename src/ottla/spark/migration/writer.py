"""The writing side of a batch, in the workers: writes records in their order, each with its source position in a header.

It writes with the sink's RecordSender, whose producer is idempotent: retries after a late response duplicate no record. Behind a record
that was not written no other one is: a later run takes the highest source offset of a partition for the end of what is there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from ottla.spark.migration.merging import merge
from ottla.spark.migration.routing import TARGET
from ottla.spark.migration.values import SOURCE_HEADER, MigrationError
from ottla.spark.sink.producer_settings import ProducerSettings

if TYPE_CHECKING:
    import pyarrow as pa

    from ottla.spark.sink.rows import ProduceArguments

WRITTEN: Final = StructType([StructField(TARGET, IntegerType()), StructField("records", LongType())])
"""How many records a task wrote to a target partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationWriter:
    """For `mapInArrow`: rows of CHUNKS in, sorted by CHUNK_ORDER, rows of WRITTEN out. Raises MigrationError."""

    producer: ProducerSettings
    source: str
    target: str

    def __call__(self, chunks: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa
        from pyspark import TaskContext

        from ottla.spark.sink.senders import WORKER_SENDERS, DeliveryError

        context = TaskContext.get()
        if context is not None and context.attemptNumber() > 0:
            raise MigrationError(f"a task failed while it wrote to {self.target}: run the same command again, it continues")
        written: Counter[int] = Counter()
        sender = WORKER_SENDERS.acquire(without_gaps(self.producer))
        try:
            sender.check_topics([self.target])
            for records in merge(chunks):
                sender.send_all(produce_arguments(records, self.source, self.target))
                written.update({each["values"]: each["counts"] for each in records.column(TARGET).value_counts().to_pylist()})
            sender.finish()
        except BaseException as error:
            sender.discard()
            if isinstance(error, DeliveryError):
                raise MigrationError(f"cannot write to {self.target}: {error}") from error
            raise
        WORKER_SENDERS.release(sender)
        columns = [pa.array(list(written), pa.int32()), pa.array(list(written.values()), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=WRITTEN.fieldNames())


def without_gaps(producer: ProducerSettings) -> ProducerSettings:
    """The settings of a producer that writes no record behind one that was not written.

    librdkafka drops a record whose time is over, or that the broker refuses, and goes on with the next one. Here none has a time limit of
    its own, since RecordSender keeps to delivery.timeout.ms, and a refusal ends the producer. Source: librdkafka's CONFIGURATION.md.
    """
    changed = {"delivery.timeout.ms": 0, "enable.gapless.guarantee": True}
    return replace(producer, properties=tuple({**dict(producer.properties), **changed}.items()))


def produce_arguments(records: "pa.Table", source: str, target: str) -> "Iterator[ProduceArguments]":
    """The records as arguments of a producer, with SOURCE_HEADER behind their own headers."""
    value, key, to = (records.column(name).to_pylist() for name in ("value", "key", TARGET))
    return zip(repeat(target), value, key, to, repeat(None), repeat(None), _times_ms(records), _headers(records, source))


def _times_ms(records: "pa.Table") -> list[int]:
    import numpy as np
    import pyarrow as pa

    # Whole numbers: a float would lose a millisecond now and then. To librdkafka, the time 0 means now.
    times_ms = records.column("timestamp").cast(pa.int64()).to_numpy() // 1000
    return np.where(times_ms == 0, 1, times_ms).tolist()  # type: ignore[no-any-return]


def _headers(records: "pa.Table", source: str) -> "Iterable[list[tuple[str, bytes | None]]]":
    import pyarrow as pa
    from pyarrow import compute

    places = (records.column(name).cast(pa.string()) for name in ("partition", "offset"))
    positions = compute.binary_join_element_wise(source, *places, ":").cast(pa.binary()).to_pylist()
    column = records.column("headers")
    if column.null_count == len(column):
        # One at a time: so many lists at once would be scanned by the garbage collector again and again.
        return ([(SOURCE_HEADER, position)] for position in positions)
    own = ([(header["key"], header["value"]) for header in headers or ()] for headers in column.to_pylist())
    return ([*headers, (SOURCE_HEADER, position)] for headers, position in zip(own, positions, strict=True))
