"""The writing side of a batch, in the workers: writes records in their order, each with its source position in a header.

It writes with the sink's RecordSender, whose producer is idempotent: retries after a late response duplicate no record, and old records,
of which that is not so on Apache Kafka, are not sent again after a lost connection. Behind a record
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


FORGOTTEN_MS: Final = 3_600_000
"""Records that are older need the connection: Apache Kafka forgets a producer by the timestamps of its records, not by when they came.

A broker that starts again drops the producers whose last record is older than producer.id.expiration.ms (a day), and one that runs does so
every ten minutes. Then it takes a record that is sent again for a new one. Source: Apache Kafka's ProducerStateManager.isProducerExpired.
"""
_WARNINGS: Final = 4
_RECONNECT: Final = {"reconnect.backoff.ms": 10_000, "reconnect.backoff.max.ms": 10_000, "log_level": _WARNINGS}


@dataclass(frozen=True, slots=True, kw_only=True)
class MigrationWriter:
    """For `mapInArrow`: rows of CHUNKS in, sorted by CHUNK_ORDER, rows of WRITTEN out. `began_ms`: about now. Raises MigrationError."""

    producer: ProducerSettings
    source: str
    target: str
    began_ms: int

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
                if _oldest_ms(records) < self.began_ms - FORGOTTEN_MS:
                    sender.need_connection()
                sender.send_all(produce_arguments(records, self.source, self.target))
                written.update({each["values"]: each["counts"] for each in records.column(TARGET).value_counts().to_pylist()})
            sender.finish()
        except BaseException as error:
            sender.discard()
            if isinstance(error, DeliveryError):
                raise MigrationError(f"cannot write to {self.target}: {error}. Run the same command again, it continues") from error
            raise
        WORKER_SENDERS.release(sender)
        columns = [pa.array(list(written), pa.int32()), pa.array(list(written.values()), pa.int64())]
        yield pa.RecordBatch.from_arrays(columns, names=WRITTEN.fieldNames())


def without_gaps(producer: ProducerSettings) -> ProducerSettings:
    """The settings of a producer that writes no record behind one that was not written.

    librdkafka drops a record whose time is over, or that the broker refuses, and goes on with the next one. Here none has a time limit of
    its own, since RecordSender keeps to delivery.timeout.ms, and a refusal ends the producer. After a lost connection it waits before it
    connects a second time, so that `need_connection` is in time. Source: librdkafka's CONFIGURATION.md.
    """
    changed = {"delivery.timeout.ms": 0, "enable.gapless.guarantee": True, **_RECONNECT}
    return replace(producer, properties=tuple({**dict(producer.properties), **changed}.items()))


def produce_arguments(records: "pa.Table", source: str, target: str) -> "Iterator[ProduceArguments]":
    """The records as arguments of a producer, with SOURCE_HEADER behind their own headers."""
    value, key, to = (records.column(name).to_pylist() for name in ("value", "key", TARGET))
    return zip(repeat(target), value, key, to, repeat(None), repeat(None), _times_ms(records), _headers(records, source))


def _oldest_ms(records: "pa.Table") -> int:
    import pyarrow as pa
    from pyarrow import compute

    return int(compute.min(records.column("timestamp").cast(pa.int64())).as_py()) // 1000


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
