"""Reads of the target with Spark: what is new in it, each part once, and where groups are in it."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from pyspark.sql import SparkSession

from ottla.spark.migration.checksums import Checksum
from ottla.spark.migration.contents import RECORDS_MAX, Contents, Place
from ottla.spark.migration.copied import COLUMNS, Summary, SummaryReader
from ottla.spark.migration.offsets import Positions, by_group
from ottla.spark.migration.shape import Shape
from ottla.spark.migration.steps import summarize, tasks_of_parts
from ottla.spark.migration.values import Extent, Migration
from ottla.spark.options.source_options import ReadSettings


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
            settings=ReadSettings(client=client, columns=COLUMNS),
            tasks=tasks_of_parts(self._target.name, self._target.topic_id, parts, self._tasks_max),
            source=self._migration.source,
            starts=self._starts,
            committed=committed,
        )
        return summarize(self._spark, reader)
