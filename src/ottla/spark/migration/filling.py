"""The target while it is filled: what it holds, the next batches, and what it must hold in the end."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import SparkSession

from ottla.client.admin.client import AdminClient
from ottla.client.settings import ClientSettings
from ottla.spark.migration.batches import Batch, plan_batches
from ottla.spark.migration.chunks import COLUMNS as SOURCE_COLUMNS
from ottla.spark.migration.chunks import ChunkReader
from ottla.spark.migration.copied import COLUMNS as TARGET_COLUMNS
from ottla.spark.migration.copied import Summary, SummaryReader, copied_by_source
from ottla.spark.migration.forecast import COLUMNS as PLACE_COLUMNS
from ottla.spark.migration.forecast import PlaceReader
from ottla.spark.migration.offsets import Carried, Positions, by_group, by_partition, carry, forecast
from ottla.spark.migration.routing import Routing
from ottla.spark.migration.shape import Shape, extents
from ottla.spark.migration.steps import copy_batch, forecast_counts, summarize, tasks_of
from ottla.spark.migration.values import NOTHING, Extent, Migration, MigrationError, Progress, Report
from ottla.spark.migration.writer import MigrationWriter
from ottla.spark.options.source_options import ReadSettings

STILL_S: Final = 3.0
"""How long the ends of a target with records must stand still: the writers of a run that was killed may not have ended yet."""
_POLL_S: Final = 0.25


class Filling:
    """A target that is being filled, in one session. `begin`, `copy_up_to` any number of times, `verify`. Not for two threads at once.

    Raises MigrationError with a sentence that says what to do, and ClientError when a cluster does not answer.
    """

    def __init__(
        self,
        spark: SparkSession,
        migration: Migration,
        *,
        source: Shape,
        target: Shape,
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
        self._copied: Mapping[int, tuple[int, ...]] = {}
        self._copied_before: dict[int, int] = {}
        self._planned: dict[int, int] = {}
        self._records: Counter[int] = Counter()
        self._written = 0
        self._done = 0

    def begin(self) -> None:
        """Wait until the target stands still, read what it holds, and continue behind it."""
        self._read_target(self._settled(), {})

    def copy_up_to(self, ends: Mapping[int, Extent], positions: Positions) -> None:
        """Copy what is not yet copied before these ends. `positions`: of the groups, which the order depends on."""
        batches, sorted_positions = self._batches(ends, positions), by_partition(positions, self._source.partitions)
        total = self._done + sum(map(_size, batches))
        for batch in batches:
            self._report(Progress(self._done, total))
            if not self._is_copied(batch):
                self._copy(batch, sorted_positions)
            self._done += _size(batch)
        self._planned.update({number: each.end for number, each in ends.items()})
        self._report(Progress(self._done, total))

    def forecast(self, held: Mapping[int, Extent], ends: Mapping[int, Extent], positions: Positions) -> tuple[int, dict[str, Carried]]:
        """What a copy up to these ends would do: the number of records that it would copy, and each group's place behind it.

        `held`: the offsets of the target, which need not exist. Nothing is written.
        """
        summaries = self._read_target(held, positions)
        batches = [batch for batch in self._batches(ends, positions) if not self._is_copied(batch)]
        counts = forecast_counts(self._spark, self._place_reader(batches, positions))
        return sum(each.records for each in counts.values()), forecast(tuple(positions), summaries, held, counts)

    @property
    def written(self) -> int:
        """The number of records that this run has copied."""
        return self._written

    @property
    def done(self) -> int:
        """The number of offsets of the source that this run has read."""
        return self._done

    def verify(self, positions: Positions) -> dict[str, Carried]:
        """Read the target, check that it has each record once and in order, and return each group's place in it."""
        held = extents(self._target_admin, self._target)
        summaries = self._summarize(held, positions)
        _check(self._migration.target, summaries)
        for partition, extent in held.items():
            found = summaries[partition].records if partition in summaries else 0
            if not found == extent.size == self._records[partition]:
                raise MigrationError(
                    f"{self._migration.target}-{partition} has {extent.size} records, and {self._records[partition]} were copied there:"
                    f" another program writes there. Stop it, delete {self._migration.target}, and run the same command again"
                )
        return carry(tuple(positions), summaries, held)

    def _read_target(self, held: Mapping[int, Extent], positions: Positions) -> dict[int, Summary]:
        summaries = self._summarize(held, positions)
        _check(self._migration.target, summaries)
        self._copied = copied_by_source(summaries, self._source.partitions) if summaries else {}
        self._records = Counter({partition: each.records for partition, each in summaries.items()})
        if len(summaries) == self._target.partitions:
            # Where a target partition has no record of a source partition, it may lack the first one.
            self._copied_before = {partition: min(highest) + 1 for partition, highest in self._copied.items()}
        return summaries

    def _batches(self, ends: Mapping[int, Extent], positions: Positions) -> list[Batch]:
        """The batches up to these ends. In a first call they begin at the start, so that a run which continues makes the same ones."""
        left = {number: Extent(max(each.start, self._planned.get(number, 0)), each.end) for number, each in ends.items()}
        some = {number: each for number, each in left.items() if each.size > 0}
        return list(plan_batches(some, by_partition(positions, self._source.partitions), self._migration.records_max))

    def _is_copied(self, batch: Batch) -> bool:
        return all(each.end <= self._copied_before.get(number, 0) for number, each in batch.items())

    def _place_reader(self, batches: Sequence[Batch], positions: Positions) -> PlaceReader:
        source, tasks = self._source, [tasks_of(self._source.name, self._source.topic_id, batch, self._tasks_max) for batch in batches]
        by_number = [[(number, task[index]) for number, task in enumerate(tasks) if index < len(task)] for index in range(self._tasks_max)]
        return PlaceReader(
            settings=_read_settings(self._migration.source_cluster.client, PLACE_COLUMNS, is_read_committed=True),
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

    def _copy(self, batch: Batch, positions: Mapping[int, tuple[int, ...]]) -> None:
        migration, source = self._migration, self._source
        tasks = tasks_of(source.name, source.topic_id, batch, self._tasks_max)
        settings = _read_settings(migration.source_cluster.client, SOURCE_COLUMNS, is_read_committed=True)
        buckets = min(self._tasks_max, self._target.partitions)
        reader = ChunkReader(settings=settings, tasks=tasks, routing=self._routing(positions, batch), buckets=buckets)
        writer = MigrationWriter(producer=migration.target_cluster.producer, source=migration.source, target=migration.target)
        written = copy_batch(self._spark, reader, writer)
        self._records.update(written)
        self._written += sum(written.values())

    def _summarize(self, held: Mapping[int, Extent], positions: Positions) -> dict[int, Summary]:
        """The summaries of the target's partitions that have records."""
        some = {number: each for number, each in held.items() if each.size > 0}
        if not some:
            return {}
        target, partitions = self._target, self._source.partitions
        reader = SummaryReader(
            settings=_read_settings(self._migration.target_cluster.client, TARGET_COLUMNS, is_read_committed=False),
            tasks=tasks_of(target.name, target.topic_id, some, self._tasks_max),
            source=self._migration.source,
            source_partitions=partitions,
            committed=by_group(positions, partitions),
        )
        return summarize(self._spark, reader)

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


def _read_settings(client: ClientSettings, columns: tuple[str, ...], *, is_read_committed: bool) -> ReadSettings:
    return ReadSettings(client=replace(client, is_read_committed=is_read_committed), columns=columns)


def _check(target: str, summaries: Mapping[int, Summary]) -> None:
    """Raise MigrationError where the target has other records than those of this migration, or some of these twice."""
    for each in summaries.values():
        if each.foreign != NOTHING:
            raise MigrationError(
                f"{target}-{each.partition} has a record at offset {each.foreign} that is not of this migration: name a topic that is"
                " empty or does not exist"
            )
        if each.disordered != NOTHING:
            raise MigrationError(
                f"{target}-{each.partition} has a record at offset {each.disordered} that was copied before, or is out of order: another"
                f" migration ran at the same time. Delete {target}, and run the same command again"
            )
