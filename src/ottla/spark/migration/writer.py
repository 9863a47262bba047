"""Writing the target's records in the order of each key, in the workers, each with its source position in a header.

Chunks, sorted by their first records, become records in order by a merge that holds about one chunk of each source partition at a time:
every record before the first one of the next chunk is there by then.

It writes with the sink's RecordSender, whose producer is idempotent: retries after a late response duplicate no record, and old records,
of which that is not so on Apache Kafka, are not sent again after a lost connection. Behind a record that was not written no other one is:
a later run takes the highest source offset of a partition for the end of what is there.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import IntegerType, LongType, StructField, StructType

from ottla.spark.migration.chunks import CHUNK_ORDER, LATEST, PHASE, TARGET
from ottla.spark.migration.values import SOURCE_HEADER, MigrationError
from ottla.spark.sink.producer_settings import ProducerSettings

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from ottla.spark.sink.senders import ProduceArguments


ROWS_MIN: Final = 65_536
BYTES_MIN: Final = 64 * 1024 * 1024
"""Sort when so many rows have come, or so many bytes: sorting at every chunk would sort those that stay again and again."""


def merge(chunks: "Iterable[pa.RecordBatch]", *, rows_min: int = ROWS_MIN, bytes_min: int = BYTES_MIN) -> "Iterator[pa.Table]":
    """The records in their order: by phase, latest time, source partition, offset. `chunks`: rows of CHUNKS, sorted by CHUNK_ORDER."""
    held: list[pa.Table] = []
    new_rows = new_bytes = 0
    for first, records in _opened(chunks):
        if new_rows >= rows_min or new_bytes >= bytes_min:
            ordered, keys = _sorted(held)
            ready = _rows_before(keys, first)
            if ready:
                yield ordered.slice(0, ready)
            held, new_rows, new_bytes = [ordered.slice(ready)], 0, 0
        held.append(records)
        new_rows += records.num_rows
        new_bytes += records.nbytes
    if held:
        yield _sorted(held)[0]


def _opened(chunks: "Iterable[pa.RecordBatch]") -> "Iterator[tuple[tuple[int, int], pa.Table]]":
    """Phase and latest time of the first record, and the records, of each chunk."""
    import pyarrow as pa

    for batch in chunks:
        for phase, latest, stream in zip(batch.column(PHASE).to_pylist(), batch.column(LATEST).to_pylist(), batch.column("records")):
            yield (phase, latest), pa.ipc.open_stream(stream.as_buffer()).read_all()


def _sorted(held: "list[pa.Table]") -> "tuple[pa.Table, tuple[Any, Any]]":
    """The rows of all tables in order, and the columns phase and latest of these."""
    import numpy as np
    import pyarrow as pa

    table = pa.concat_tables(held).combine_chunks()
    keys = [table.column(name).to_numpy() for name in CHUNK_ORDER]
    packed = _packed(*keys[:3])
    order = np.lexsort(keys[::-1]) if packed is None else np.argsort(packed, kind="stable")
    return table.take(pa.array(order)), (keys[0][order], keys[1][order])


def _packed(
    phases: "np.ndarray[Any, Any]", latest: "np.ndarray[Any, Any]", partitions: "np.ndarray[Any, Any]"
) -> "np.ndarray[Any, Any] | None":
    """One number for phase, latest time and partition, in their order; None where 63 bits are too few.

    A stable sort keeps the offsets in order, because each partition's rows come in theirs. It merges the runs that the chunks are, in a
    tenth of the time of a sort by four columns.
    """
    import numpy as np

    if not len(latest):
        return None
    low, span = int(latest.min()), int(latest.max()) - int(latest.min()) + 1
    count = int(partitions.max()) + 1
    if (int(phases.max()) + 1) * span * count >= 2**63:
        return None
    packed: np.ndarray[Any, Any] = (phases.astype(np.int64) * span + (latest - low)) * count + partitions
    return packed


def _rows_before(keys: tuple[Any, Any], first: tuple[int, int]) -> int:
    """How many sorted rows come before `first`, by phase and latest time."""
    import numpy as np

    phases, latest = keys
    start, end = (int(np.searchsorted(phases, first[0], side=side)) for side in ("left", "right"))
    return start + int(np.searchsorted(latest[start:end], first[1], side="left"))


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
