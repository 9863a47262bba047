"""The source of a migration in chunks: reading them, the target partition of each record, its place in the order there, and checksums.

In the workers, the fetch client and the decoder of Spark's source give Arrow batches, without rows of Spark. A batch of one source
partition gets the columns of ORDER, and loses the records that the target has already. Spark moves and sorts chunks, a few thousand
records each, instead of records: rows of Spark would cost more than all the rest. A chunk has records of one source partition, in the
order of their offsets, as an Arrow stream, for one writing task.

Checksums of sets of offsets show whether two reads found the same records: the offsets that a migration read in the source have to be
those that the target's headers name. Both reads add up to a few numbers for each source partition, and none is repeated for the
comparison.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, TypeVar
from zlib import crc32

from pyspark.sql.types import BinaryType, IntegerType, LongType, StructField, StructType

from ottla.spark.migration.values import CRC32, NOTHING, MigrationError
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.planning import ReadTask

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    Longs = np.ndarray[Any, np.dtype[np.int64]]


def task_numbers(numbers: "Iterator[pa.RecordBatch]") -> Iterator[int]:
    """The numbers in the rows of a DataFrame of `spark.range`."""
    for batch in numbers:
        yield from batch.column(0).to_pylist()


def read(settings: ReadSettings, task: ReadTask) -> "Iterator[pa.RecordBatch]":
    """The records of a task, each batch of one partition; none is empty. Raises MigrationError for lost records, other ClientErrors."""
    from ottla.spark.source import task_reading
    from ottla.spark.source.planning import DataLossError

    try:
        yield from (batch for batch in task_reading.read(settings, task) if batch.num_rows)
    except DataLossError as error:
        raise MigrationError(f"{error.__cause__}. To continue with what is there, run the same command again") from error


TARGET, PHASE, LATEST = "target_partition", "phase", "latest"
ORDER: Final = (TARGET, PHASE, LATEST)
"""The added columns: the target partition (int32), the phase (int32, see ReadPhases), and the latest timestamp of the source partition so
far, in microseconds (int64): timestamps may go backwards, offsets do not."""


class ReadPhases(NamedTuple):
    """The phases of a source partition: records of one phase, of whatever partition, have been read by the same groups.

    `cuts`: the sorted committed offsets of the groups. `numbers`: the phase of the offsets before the first of these, between each and the
    next, and from the last one on. They rise: phases are copied in the order of their numbers.
    """

    cuts: tuple[int, ...] = ()
    numbers: tuple[int, ...] = (0,)


@dataclass(frozen=True, slots=True, kw_only=True)
class Routing:
    """How the records of the source are spread over `partitions`.

    By source partition: its `phases`, and `copied`, the highest source offset that each target partition has (NOTHING: none).
    """

    partitions: int
    partitioner: str
    phases: Mapping[int, ReadPhases] = field(default_factory=dict)
    copied: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


class PartitionRouter:
    """For the records of one source partition, in the order of their offsets."""

    def __init__(self, routing: Routing, partition: int) -> None:
        import numpy as np

        self._routing = routing
        self._partition = partition
        phases = routing.phases.get(partition, ReadPhases())
        self._cuts, self._numbers = np.array(phases.cuts, np.int64), np.array(phases.numbers, np.int32)
        self._copied = np.array(routing.copied.get(partition, (NOTHING,) * routing.partitions), np.int64)
        self._latest = np.iinfo(np.int64).min

    def route(self, batch: "pa.RecordBatch") -> "pa.RecordBatch":
        """The records that are still to copy, with the columns of ORDER. Needs the columns key, offset and timestamp."""
        import numpy as np
        import pyarrow as pa

        targets = self._targets(batch.column("key"))
        offsets = np.asarray(batch.column("offset"))
        times = np.asarray(batch.column("timestamp").cast(pa.int64()))
        latest = np.maximum(np.maximum.accumulate(times), self._latest) if len(times) else times
        self._latest = latest[-1] if len(latest) else self._latest
        phases = self._numbers[np.searchsorted(self._cuts, offsets, side="right")]
        arrays = (pa.array(targets), pa.array(phases), pa.array(latest))
        routed = pa.RecordBatch.from_arrays([*batch.columns, *arrays], names=[*batch.schema.names, *ORDER])
        missing = offsets > self._copied[targets]
        return routed if missing.all() else routed.filter(pa.array(missing))

    def _targets(self, keys: "pa.BinaryArray") -> "np.ndarray[tuple[int], np.dtype[np.int32]]":
        """By the key, as producers will choose; records that they would put anywhere stay together with those of their source partition."""
        import numpy as np

        from ottla.protocol.arrow.partitioning import NO_PARTITION, murmur2_partitions

        count = self._routing.partitions
        anywhere = self._partition % count
        if self._routing.partitioner == CRC32:
            # librdkafka puts empty keys anywhere, too.
            return np.array([crc32(key) % count if key else anywhere for key in keys.to_pylist()], np.int32)
        targets = murmur2_partitions(keys, count)
        targets[targets == NO_PARTITION] = anywhere
        return targets


K = TypeVar("K")
_MODULUS: Final = 2**64


class Checksum(NamedTuple):
    """Of a set of offsets: how many there are, and the sum of a hash of each, modulo 2**64. Those of disjoint sets add up."""

    records: int = 0
    hashes: int = 0

    def plus(self, other: "Checksum") -> "Checksum":
        """Of both sets together."""
        return Checksum(self.records + other.records, (self.hashes + other.hashes) % _MODULUS)

    def minus(self, other: "Checksum") -> "Checksum":
        """Of this set without the other, which is a part of it."""
        return Checksum(self.records - other.records, (self.hashes - other.hashes) % _MODULUS)


NO_OFFSETS: Final = Checksum()


def add_up(total: dict[K, Checksum], more: Mapping[K, Checksum]) -> None:
    """Add each checksum of `more` to that of the same key in `total`."""
    for key, checksum in more.items():
        total[key] = total.get(key, NO_OFFSETS).plus(checksum)


def checksum(offsets: "Longs") -> Checksum:
    """The checksum of these offsets."""
    return Checksum(len(offsets), int(hashes(offsets).view("uint64").sum()))


def hashes(offsets: "Longs") -> "Longs":
    """A hash of each offset; their sums wrap around. The last steps of SplitMix64, a permutation of 64 bits."""
    import numpy as np

    mixed = offsets.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed.view(np.int64)


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
