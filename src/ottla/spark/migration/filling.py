"""The target while it is filled: what it holds, the next batches, and what it must hold in the end."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession

from ottla.client.admin.client import AdminClient
from ottla.spark.migration.batches import Batch, plan_batches
from ottla.spark.migration.chunks import COLUMNS, OFFSET_COLUMNS, ChunkReader, OffsetReader, Sum
from ottla.spark.migration.comparing import Comparison
from ottla.spark.migration.forecast import COLUMNS as PLACE_COLUMNS
from ottla.spark.migration.forecast import PlaceReader
from ottla.spark.migration.offsets import Carried, Positions, by_group, by_partition, carry, forecast
from ottla.spark.migration.routing import Routing
from ottla.spark.migration.shape import Shape, extents
from ottla.spark.migration.steps import SeenOffsets, copy_batch, forecast_counts, read_offsets, tasks_of
from ottla.spark.migration.target_reading import TargetReads
from ottla.spark.migration.values import Extent, Migration, MigrationError, Progress, Report
from ottla.spark.migration.writer import MigrationWriter
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.tasks import ReadTask

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
        batches, sorted_positions = self._batches(ends, positions), by_partition(positions, self._source.partitions)
        if not self._planned:
            self._comparison.begin(ends)
        total = self._done + sum(map(_size, batches))
        for batch in batches:
            self._report(Progress(self._done, total))
            seen = self._spark.sparkContext.accumulator({}, SeenOffsets())
            if self._is_copied(batch):
                read_offsets(self._spark, OffsetReader(settings=self._read_settings(OFFSET_COLUMNS), tasks=self._tasks(batch), seen=seen))
            else:
                self._copy(batch, sorted_positions, seen)
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
        batches = [batch for batch in self._batches(ends, positions) if not self._is_copied(batch)]
        counts = forecast_counts(self._spark, self._place_reader(batches, positions))
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

    def _batches(self, ends: Mapping[int, Extent], positions: Positions) -> list[Batch]:
        """The batches up to these ends. In a first call they begin at the start, so that a run which continues makes the same ones."""
        left = {number: Extent(max(each.start, self._planned.get(number, 0)), each.end) for number, each in ends.items()}
        some = {number: each for number, each in left.items() if each.size > 0}
        return list(plan_batches(some, by_partition(positions, self._source.partitions), self._migration.records_max))

    def _is_copied(self, batch: Batch) -> bool:
        return all(each.end <= self._copied_before.get(number, 0) for number, each in batch.items())

    def _place_reader(self, batches: Sequence[Batch], positions: Positions) -> PlaceReader:
        source, tasks = self._source, [self._tasks(batch) for batch in batches]
        by_number = [[(number, task[index]) for number, task in enumerate(tasks) if index < len(task)] for index in range(self._tasks_max)]
        return PlaceReader(
            settings=self._read_settings(PLACE_COLUMNS),
            tasks=tuple(tuple(each) for each in by_number if each),
            routing=self._routing(by_partition(positions, source.partitions), range(source.partitions)),
            committed=by_group(positions, source.partitions),
        )

    def _routing(self, positions: Mapping[int, tuple[int, ...]], partitions: Iterable[int]) -> Routing:
        """How the records of these source partitions are spread."""
        return Routing(
            partitions=self._target.partitions,
            partitioner=self._migration.partitioner,
            positions={number: positions[number] for number in partitions},
            copied={number: self._copied[number] for number in partitions if number in self._copied},
        )

    def _copy(self, batch: Batch, positions: Mapping[int, tuple[int, ...]], seen: Sum) -> None:
        migration, routing = self._migration, self._routing(positions, batch)
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
