"""Filling the target of a migration: batch after batch, comparing what was written, until the source stands still.

The Spark jobs are tasks that read, chunks that move to the tasks that write them, summaries of the target, and forecasts. Records are rows
of Spark nowhere: the tasks read and write them as Arrow. What is new in the target is read once, part by part.

A batch has a bounded number of offsets. Phases come in their order; in a phase, all source partitions advance by the same share, so that
they advance together in time.

Whether the target has exactly the records of the source is decided by checksums of their offsets in it, in two comparisons for each source
partition. What the target got since the run began has to be what this run read and did not find there. What it held before has to be what
the run read and found there already: all of it, since a run that continues reads these offsets again.
"""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.client.admin.client import AdminClient
from ottla.spark.migration.chunks import (
    BUCKET,
    CHUNK_ORDER,
    CHUNKS,
    COLUMNS,
    NO_OFFSETS,
    OFFSET_COLUMNS,
    TARGET,
    Checksum,
    ChunkReader,
    OffsetReader,
    ReadPhases,
    Routing,
    Seen,
    Sum,
    add_up,
)
from ottla.spark.migration.copied import COLUMNS as POSITION_COLUMNS
from ottla.spark.migration.copied import RECORDS_MAX, SUMMARIES, Contents, Place, Summary, SummaryReader, summary_of
from ottla.spark.migration.offsets import COLUMNS as PLACE_COLUMNS
from ottla.spark.migration.offsets import (
    COUNTS,
    FIRST_PLACES,
    Carried,
    Counts,
    FirstUnread,
    PlaceCounter,
    PlaceReader,
    Positions,
    by_group,
    carry,
    earliest_places,
    forecast,
    phases_of,
    total_counts,
)
from ottla.spark.migration.topics import Shape, extents
from ottla.spark.migration.values import Extent, Migration, MigrationError, Progress, Report
from ottla.spark.migration.writer import WRITTEN, MigrationWriter
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.planning import OffsetRange, ReadTask, group_into_tasks

if TYPE_CHECKING:
    import pyarrow as pa


_ROWS_MAX: Final = "spark.sql.execution.arrow.maxRecordsPerBatch"
_CHUNKS_AT_ONCE: Final = 16
"""Chunks are large: Spark's ten thousand rows in one Arrow batch would be more than Arrow can hold."""


def tasks_of(topic: str, topic_id: str, extents: Mapping[int, Extent], tasks_max: int) -> tuple[ReadTask, ...]:
    """At most `tasks_max` tasks that read these offsets, each whole partitions."""
    return tasks_of_parts(topic, topic_id, {partition: [extent] for partition, extent in extents.items()}, tasks_max)


def tasks_of_parts(topic: str, topic_id: str, parts: Mapping[int, Sequence[Extent]], tasks_max: int) -> tuple[ReadTask, ...]:
    """At most `tasks_max` tasks that read these parts of partitions, each whole parts."""
    ranges = [OffsetRange(topic, partition, start, end, topic_id) for partition, each in sorted(parts.items()) for start, end in each]
    return tuple(group_into_tasks(ranges, tasks_max))


class SeenOffsets(AccumulatorParam[dict[Seen, Checksum]]):
    """Adds up what tasks have read. Spark runs each task once: one that fails ends the migration."""

    def zero(self, value: dict[Seen, Checksum]) -> dict[Seen, Checksum]:
        """Nothing."""
        return {}

    def addInPlace(self, value1: dict[Seen, Checksum], value2: dict[Seen, Checksum]) -> dict[Seen, Checksum]:
        """The first one, with the second one added."""
        add_up(value1, value2)
        return value1


def copy_batch(spark: SparkSession, reader: ChunkReader, writer: MigrationWriter) -> dict[int, int]:
    """Copy what the reader's tasks read; the number of written records by target partition."""
    chunks = rows_of_tasks(spark, len(reader.tasks), reader, CHUNKS)
    with _small_batches(spark):
        rows = order_chunks(chunks, reader.buckets).mapInArrow(writer, WRITTEN).collect()
    return {row[TARGET]: row["records"] for row in rows}


def order_chunks(chunks: DataFrame, buckets: int) -> DataFrame:
    """Each chunk in the Spark partition of its bucket, in the order of their first records."""
    return chunks.repartitionById(buckets, F.col(BUCKET)).sortWithinPartitions(*CHUNK_ORDER)


def summarize(spark: SparkSession, reader: SummaryReader) -> list[Summary]:
    """The summaries of the parts of the target that the reader's tasks read."""
    return [summary_of(row) for row in rows_of_tasks(spark, len(reader.tasks), reader, SUMMARIES).collect()]


def read_offsets(spark: SparkSession, reader: OffsetReader) -> None:
    """Read the offsets of the reader's tasks; its accumulator has them afterwards."""
    rows_of_tasks(spark, len(reader.tasks), reader, WRITTEN).collect()


def forecast_counts(spark: SparkSession, reader: PlaceReader) -> Mapping[int, Counts]:
    """What the reader's tasks would copy, by target partition."""
    groups, partitions = len(reader.committed), reader.routing.partitions
    rows = rows_of_tasks(spark, len(reader.tasks), FirstUnread(reader=reader), FIRST_PLACES).collect()
    first = tuple(tuple(each) for each in earliest_places(rows, groups, partitions))
    rows = rows_of_tasks(spark, len(reader.tasks), PlaceCounter(reader=reader, first=first), COUNTS).collect()
    return total_counts(rows, groups, partitions)


def rows_of_tasks(
    spark: SparkSession, count: int, work: "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]", schema: StructType
) -> DataFrame:
    """The rows that `work` makes of the numbers of `count` tasks."""
    return spark.range(0, count, 1, max(count, 1)).mapInArrow(work, schema)


@contextmanager
def _small_batches(spark: SparkSession) -> Iterator[None]:
    before: Any = spark.conf.get(_ROWS_MAX)
    spark.conf.set(_ROWS_MAX, str(_CHUNKS_AT_ONCE))
    try:
        yield
    finally:
        spark.conf.set(_ROWS_MAX, before)


Batch = dict[int, Extent]
"""The offsets of a batch by source partition; none is empty."""


def plan_batches(left: Mapping[int, Extent], phases: Mapping[int, ReadPhases], records_max: int) -> Iterator[Batch]:
    """Batches of about `records_max` offsets that make up `left`, in their order. Each source partition has its offsets in rising order."""
    batch: Batch = {}
    for phase in _parts_by_phase(left, phases):
        total, done = _offsets(phase), 0
        while done < total:
            step = min(records_max - _offsets(batch), total - done)
            for partition, extent in phase.items():
                start, end = (extent.start + extent.size * share // total for share in (done, done + step))
                if end > start:
                    batch[partition] = Extent(batch[partition].start if partition in batch else start, end)
            done += step
            if _offsets(batch) >= records_max - len(left):
                yield batch
                batch = {}
    if batch:
        yield batch


def _parts_by_phase(left: Mapping[int, Extent], phases: Mapping[int, ReadPhases]) -> list[dict[int, Extent]]:
    parts: dict[int, dict[int, Extent]] = {}
    for partition, extent in left.items():
        cuts, numbers = phases.get(partition, ReadPhases())
        for number, part in zip(numbers, extent.cut_at(cuts), strict=True):
            if part.size:
                parts.setdefault(number, {})[partition] = part
    return [parts[number] for number in sorted(parts)]


def _offsets(extents: Mapping[int, Extent]) -> int:
    return sum(each.size for each in extents.values())


_AGAIN: Final = "Delete {target}, and run the same command again"


class Comparison:
    """Of a source with a target, in one run.

    `held`: what the target held when the run began, of the offsets from `starts` on, by source partition. `is_compacted`: the source may
    have lost records between others, so that the target may have held more than it has; then their number alone is compared.
    """

    def __init__(
        self, source: str, target: str, *, starts: Mapping[int, int], held: Mapping[int, Checksum], is_compacted: bool = False
    ) -> None:
        self._source = source
        self._target = target
        self._starts = starts
        self._held = held
        self._is_compacted = is_compacted
        self._seen: dict[Seen, Checksum] = {}
        self._deleted: set[int] = set()

    def begin(self, ends: Mapping[int, Extent]) -> None:
        """The first offsets that are read. Where retention has deleted some since the target was read, it may have held more, too."""
        self._deleted = {partition for partition, each in ends.items() if each.start > self._starts[partition]}

    @property
    def found_again(self) -> int:
        """How many of the records that the target held the source still has."""
        return sum(each.records for key, each in self._seen.items() if not key.is_new)

    def add(self, seen: Mapping[Seen, Checksum]) -> None:
        """The run has read these offsets."""
        add_up(self._seen, seen)

    def check(self, found: Mapping[int, Checksum]) -> None:
        """`found`: what the target has now, of the offsets from `starts` on. Raises MigrationError where it is not what it has to be."""
        for partition in self._starts:
            before = self._held.get(partition, NO_OFFSETS)
            self._check_held(partition, before)
            copied = found.get(partition, NO_OFFSETS).minus(before)
            read = self._seen.get(Seen(partition, True), NO_OFFSETS)
            if copied != read:
                raise MigrationError(
                    f"{self._target} got {copied.records} records of {self._source}-{partition} since this run began, and they are not the"
                    f" {read.records} that it read there: records were lost, or another program writes to {self._target}. "
                    + _AGAIN.format(target=self._target)
                )

    def _check_held(self, partition: int, held: Checksum) -> None:
        there = self._seen.get(Seen(partition, False), NO_OFFSETS)
        may_be_more = self._is_compacted or partition in self._deleted
        if held == there or (may_be_more and held.records >= there.records):
            return
        raise MigrationError(
            f"{self._target} held {held.records} records of {self._source}-{partition}, and they are not the {there.records} that it has up"
            f" to there: {self._source} was deleted and made again, or another --partitioner was used. "
            + _AGAIN.format(target=self._target)
        )


class TargetReads:
    """A target that is read as it grows. `starts`: where each source partition starts; no checksum has offsets before that.

    Raises MigrationError for records of others, and for those that come twice; ClientError when a cluster does not answer.
    """

    def __init__(self, spark: SparkSession, migration: Migration, *, target: Shape, starts: Mapping[int, int], tasks_max: int) -> None:
        self._spark = spark
        self._migration = migration
        self._target = target
        self._starts = tuple(starts[number] for number in range(len(starts)))
        self._tasks_max = tasks_max
        # Larger parts for a source with many partitions, whose summaries are larger, too.
        records_max = max(RECORDS_MAX, 1_000 * len(starts))
        self._contents = Contents(target.name, source_partitions=len(starts), records_max=records_max)

    def unread(self, held: Mapping[int, Extent]) -> int:
        """How many offsets of the target are new."""
        return sum(each.size for parts in self._contents.new_parts(held).values() for each in parts)

    def read(self, held: Mapping[int, Extent]) -> None:
        """Read what is new in the target."""
        self._contents.add(self._summaries(self._contents.new_parts(held), ()))

    def place(self, held: Mapping[int, Extent], positions: Positions) -> dict[int, Place]:
        """Read what is new, and return where the groups are in each target partition that has records."""
        committed = by_group(positions, len(self._starts))
        known = self._summaries(self._contents.new_parts(held), committed)
        self._contents.add(known)
        known += self._summaries(self._contents.unplaced(committed, known), committed)
        return self._contents.places(committed, known)

    def records(self, partition: int) -> int:
        """How many records were found in a target partition."""
        return self._contents.records(partition)

    def copied(self) -> dict[int, tuple[int, ...]]:
        """By source partition: the highest source offset in each target partition that has records."""
        return self._contents.copied()

    def checksums(self) -> dict[int, Checksum]:
        """By source partition: the checksum of its offsets in the target."""
        return self._contents.checksums()

    def _summaries(self, parts: Mapping[int, Sequence[Extent]], committed: tuple[tuple[int, ...], ...]) -> list[Summary]:
        if not parts:
            return []
        client = replace(self._migration.target_cluster.client, is_read_committed=False)
        reader = SummaryReader(
            settings=ReadSettings(client=client, columns=POSITION_COLUMNS),
            tasks=tasks_of_parts(self._target.name, self._target.topic_id, parts, self._tasks_max),
            source=self._migration.source,
            starts=self._starts,
            committed=committed,
        )
        return summarize(self._spark, reader)


STILL_S: Final = 3.0
"""How long the ends of a target with records must stand still: the writers of a run that was killed may not have ended yet."""
VERIFIED_AT: Final = 100_000
"""How many new records are verified at once while a live topic is followed."""
_POLL_S: Final = 0.25


class Filling:
    """A target that is being filled, in one session. `begin`, `copy_up_to` any number of times, `finish`. Not for two threads at once.

    `available`: the offsets that the source has. Raises MigrationError with a sentence that says what to do, and ClientError when a
    cluster does not answer.
    """

    def __init__(
        self,
        spark: SparkSession,
        migration: Migration,
        *,
        source: Shape,
        target: Shape,
        available: Mapping[int, Extent],
        target_admin: AdminClient,
        report: Report,
        pause: Callable[[float], None] = time.sleep,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._spark = spark
        self._migration = migration
        self._source = source
        self._target = target
        self._target_admin = target_admin
        self._report = report
        self._pause = pause
        self._clock = clock
        self._tasks_max = max(int(spark.sparkContext.defaultParallelism), 1)
        self._starts = {number: each.start for number, each in available.items()}
        self._reads = TargetReads(spark, migration, target=target, starts=self._starts, tasks_max=self._tasks_max)
        self._comparison = Comparison(migration.source, migration.target, starts=self._starts, held={})
        self._copied: Mapping[int, tuple[int, ...]] = {}
        self._copied_before: dict[int, int] = {}
        self._planned: dict[int, int] = {}
        self._records: Counter[int] = Counter()
        self._held = 0
        self._written = 0
        self._done = 0

    def begin(self, *, is_compacted: bool) -> None:
        """Wait until the target stands still, read what it holds, and continue behind it.

        `is_compacted`: the source may have lost records between others since a run before.
        """
        held = self._settled()
        self._reads.read(held)
        self._continue(held)
        self._comparison = Comparison(
            self._migration.source,
            self._migration.target,
            starts=self._starts,
            held=self._reads.checksums(),
            is_compacted=is_compacted,
        )

    def copy_up_to(self, ends: Mapping[int, Extent], positions: Positions) -> None:
        """Copy what is not yet copied before these ends. `positions`: of the groups, which the order depends on."""
        batches, phases = self._plan(ends, positions)
        if not self._planned:
            self._comparison.begin(ends)
        total = self._done + sum(map(_size, batches))
        for batch in batches:
            self._report(Progress(self._done, total))
            seen = self._spark.sparkContext.accumulator({}, SeenOffsets())
            if self._is_copied(batch):
                read_offsets(self._spark, OffsetReader(settings=self._read_settings(OFFSET_COLUMNS), tasks=self._tasks(batch), seen=seen))
            else:
                self._copy(batch, phases, seen)
            self._comparison.add(seen.value)
            self._done += _size(batch)
        self._planned.update({number: each.end for number, each in ends.items()})
        self._report(Progress(self._done, total))

    def forecast(self, held: Mapping[int, Extent], ends: Mapping[int, Extent], positions: Positions) -> tuple[int, dict[str, Carried]]:
        """What a copy up to these ends would do: the number of records that it would copy, and each group's place behind it.

        `held`: the offsets of the target, which need not exist. Nothing is written.
        """
        places = self._reads.place(held, positions)
        self._continue(held)
        batches, phases = self._plan(ends, positions)
        reader = self._place_reader([batch for batch in batches if not self._is_copied(batch)], phases, positions)
        counts = forecast_counts(self._spark, reader)
        return sum(each.records for each in counts.values()), forecast(tuple(positions), places, held, counts)

    @property
    def written(self) -> int:
        """The number of records that this run has copied."""
        return self._written

    @property
    def done(self) -> int:
        """The number of offsets of the source that this run has read."""
        return self._done

    @property
    def gone(self) -> int:
        """How many records the target held when this run began that the source no longer had."""
        return self._held - self._comparison.found_again

    def verify_some(self) -> None:
        """Read what was copied since the last call, if it is much, so that less is left for the end."""
        held = extents(self._target_admin, self._target)
        if self._reads.unread(held) >= VERIFIED_AT:
            self._reads.read(held)

    def replay(self, positions: Positions) -> dict[str, int]:
        """How many records each group would read again if nothing more were copied. It reads some of the target."""
        held = extents(self._target_admin, self._target)
        carried = carry(tuple(positions), self._reads.place(held, positions), held)
        return {group: each.replayed for group, each in carried.items()}

    def verify(self, positions: Positions) -> dict[str, Carried]:
        """Read the rest of the target, check that it has each record of the source once and in order, and return each group's place."""
        held = extents(self._target_admin, self._target)
        places = self._reads.place(held, positions)
        for partition, extent in held.items():
            if not self._reads.records(partition) == extent.size == self._records[partition]:
                raise MigrationError(
                    f"{self._migration.target}-{partition} has {extent.size} records, and {self._records[partition]} were copied there:"
                    f" another program writes there. Stop it, delete {self._migration.target}, and run the same command again"
                )
        self._comparison.check(self._reads.checksums())
        return carry(tuple(positions), places, held)

    def _continue(self, held: Mapping[int, Extent]) -> None:
        """Continue behind what was read of the target."""
        self._copied = self._reads.copied()
        self._records = Counter({partition: self._reads.records(partition) for partition in held})
        self._held = self._records.total()
        if all(self._records.values()):
            # Where a target partition has no record of a source partition, it may lack the first one.
            self._copied_before = {partition: min(highest) + 1 for partition, highest in self._copied.items()}

    def _plan(self, ends: Mapping[int, Extent], positions: Positions) -> tuple[list[Batch], dict[int, ReadPhases]]:
        """The batches up to these ends. In a first call they begin at the start, so that a run which continues makes the same ones."""
        left = {number: Extent(max(each.start, self._planned.get(number, 0)), each.end) for number, each in ends.items()}
        some = {number: each for number, each in left.items() if each.size > 0}
        phases = phases_of(positions, some)
        return list(plan_batches(some, phases, self._migration.records_max)), phases

    def _is_copied(self, batch: Batch) -> bool:
        return all(each.end <= self._copied_before.get(number, 0) for number, each in batch.items())

    def _place_reader(self, batches: Sequence[Batch], phases: Mapping[int, ReadPhases], positions: Positions) -> PlaceReader:
        source, tasks = self._source, [self._tasks(batch) for batch in batches]
        by_number = [[(number, task[index]) for number, task in enumerate(tasks) if index < len(task)] for index in range(self._tasks_max)]
        return PlaceReader(
            settings=self._read_settings(PLACE_COLUMNS),
            tasks=tuple(tuple(each) for each in by_number if each),
            routing=self._routing(phases, phases),
            committed=by_group(positions, source.partitions),
        )

    def _routing(self, phases: Mapping[int, ReadPhases], partitions: Iterable[int]) -> Routing:
        """How the records of these source partitions are spread."""
        return Routing(
            partitions=self._target.partitions,
            partitioner=self._migration.partitioner,
            phases={number: phases[number] for number in partitions},
            copied={number: self._copied[number] for number in partitions if number in self._copied},
        )

    def _copy(self, batch: Batch, phases: Mapping[int, ReadPhases], seen: Sum) -> None:
        migration, routing = self._migration, self._routing(phases, batch)
        buckets = min(self._tasks_max, self._target.partitions)
        reader = ChunkReader(settings=self._read_settings(COLUMNS), tasks=self._tasks(batch), routing=routing, buckets=buckets, seen=seen)
        names = {"source": migration.source, "target": migration.target}
        writer = MigrationWriter(producer=migration.target_cluster.producer, began_ms=time.time_ns() // 1_000_000, **names)
        written = copy_batch(self._spark, reader, writer)
        self._records.update(written)
        self._written += sum(written.values())

    def _tasks(self, batch: Batch) -> tuple[ReadTask, ...]:
        return tasks_of(self._source.name, self._source.topic_id, batch, self._tasks_max)

    def _read_settings(self, columns: tuple[str, ...]) -> ReadSettings:
        return ReadSettings(client=replace(self._migration.source_cluster.client, is_read_committed=True), columns=columns)

    def _settled(self) -> dict[int, Extent]:
        """The target's offsets, once they have stood still; an empty one is not waited for."""
        held = extents(self._target_admin, self._target)
        since = self._clock()
        while any(each.size for each in held.values()) and self._clock() - since < STILL_S:
            self._report(Progress(0, 0, f"{self._migration.target} to stand still"))
            self._pause(_POLL_S)
            before, held = held, extents(self._target_admin, self._target)
            since = since if held == before else self._clock()
        return held


def _size(batch: Batch) -> int:
    return sum(each.size for each in batch.values())
