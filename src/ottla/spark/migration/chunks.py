"""The reading side of a batch, in the workers: records of the source as chunks, each for one writing task.

Spark moves and sorts chunks, a few thousand records each, instead of records: rows of Spark would cost more than all the rest. A chunk has
records of one source partition, in the order of their offsets, as an Arrow stream.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from ottla.spark.migration.checksums import Checksum, checksum
from ottla.spark.migration.reading import read, task_numbers
from ottla.spark.migration.routing import LATEST, PHASE, TARGET, PartitionRouter, Routing
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.tasks import ReadTask

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = ("key", "value", "headers", "timestamp", "partition", "offset")
"""The columns that are read from the source."""

OFFSET_COLUMNS: Final = ("partition", "offset")
"""Those of records that the target has already."""

BUCKET: Final = "bucket"
CHUNKS: Final = StructType(
    [
        StructField(BUCKET, IntegerType()),
        StructField(PHASE, IntegerType()),
        StructField(LATEST, LongType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("records", BinaryType()),
    ]
)
"""A chunk: the task that writes it, the place of its first record in the order, and its records (COLUMNS and ORDER) as an Arrow stream."""

BYTES_MAX: Final = 512 * 1024
"""About the size of a chunk: a task that writes holds one of each source partition."""

CHUNK_ORDER: Final = (PHASE, LATEST, "partition", "offset")


class Seen(NamedTuple):
    """The records of a source partition that a read has found: those that are to be copied, or those that the target has already."""

    partition: int
    is_new: bool


class Sum(Protocol):
    """Adds up what the tasks have read, on the driver: an accumulator of Spark."""

    def add(self, term: dict[Seen, Checksum]) -> None:
        """Add the offsets that were read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkReader:
    """For `mapInArrow` over numbers of `tasks`: rows of CHUNKS; `seen` gets the offsets that were read. Raises as `read` does."""

    settings: ReadSettings
    tasks: tuple[ReadTask, ...]
    routing: Routing
    buckets: int
    seen: Sum

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        for number in task_numbers(numbers):
            routers: dict[int, PartitionRouter] = {}
            for batch in read(self.settings, self.tasks[number]):
                partition = batch.column("partition")[0].as_py()
                if partition not in routers:
                    routers[partition] = PartitionRouter(self.routing, partition)
                routed = routers[partition].route(batch)
                self.seen.add(checksums(partition, batch, routed))
                yield chunk(routed, self.buckets)


def checksums(partition: int, batch: "pa.RecordBatch", routed: "pa.RecordBatch") -> dict[Seen, Checksum]:
    """What was read of a source partition: `routed` are the records of `batch` that are to be copied."""
    import numpy as np

    new = checksum(np.asarray(routed.column("offset")))
    if routed.num_rows == batch.num_rows:
        return {Seen(partition, True): new}
    return {Seen(partition, True): new, Seen(partition, False): checksum(np.asarray(batch.column("offset"))).minus(new)}


@dataclass(frozen=True, slots=True, kw_only=True)
class OffsetReader:
    """For `mapInArrow` over numbers of `tasks`, of records that the target has already: no rows. `seen` gets their offsets."""

    settings: ReadSettings
    tasks: tuple[ReadTask, ...]
    seen: Sum

    def __call__(self, numbers: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import numpy as np

        for number in task_numbers(numbers):
            for batch in read(self.settings, self.tasks[number]):
                seen = Seen(batch.column("partition")[0].as_py(), False)
                self.seen.add({seen: checksum(np.asarray(batch.column("offset")))})
        yield from ()


def chunk(routed: "pa.RecordBatch", buckets: int, *, bytes_max: int = BYTES_MAX) -> "pa.RecordBatch":
    """Rows of CHUNKS for records with the columns of ORDER: target partition t is written by task t modulo `buckets`.

    A chunk has about `bytes_max` bytes, or a single larger record.
    """
    import numpy as np
    import pyarrow as pa

    targets = np.asarray(routed.column(TARGET)) % buckets
    order = np.argsort(targets, kind="stable")
    ends = np.searchsorted(targets[order], np.arange(buckets), side="right").tolist()
    grouped = routed.take(pa.array(order))
    rows_max = max(bytes_max * grouped.num_rows // max(grouped.nbytes, 1), 1)
    parts = [
        (bucket, grouped.slice(row, min(rows_max, end - row)))
        for bucket, (start, end) in enumerate(zip([0, *ends], ends))
        for row in range(start, end, rows_max)
    ]
    columns = [
        pa.array([bucket for bucket, _ in parts], pa.int32()),
        *(pa.array([part.column(name)[0].as_py() for _, part in parts], routed.schema.field(name).type) for name in CHUNK_ORDER),
        pa.array([_stream(part) for _, part in parts], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, names=CHUNKS.fieldNames())


def _stream(records: "pa.RecordBatch") -> bytes:
    import pyarrow as pa

    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, records.schema) as writer:
        writer.write_batch(records)
    return bytes(out.getvalue().to_pybytes())
