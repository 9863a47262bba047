"""The Spark jobs of a migration: tasks that read, chunks that move to the tasks that write them, summaries of the target, and
forecasts.

Records are rows of Spark nowhere: the tasks read and write them as Arrow.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.accumulators import AccumulatorParam
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.spark.migration.checksums import Checksum, add_up
from ottla.spark.migration.chunks import BUCKET, CHUNK_ORDER, CHUNKS, ChunkReader, OffsetReader, Seen
from ottla.spark.migration.copied import SUMMARIES, Summary, SummaryReader, summary_of
from ottla.spark.migration.forecast import (
    COUNTS,
    FIRST_PLACES,
    Counts,
    FirstUnread,
    PlaceCounter,
    PlaceReader,
    earliest_places,
    total_counts,
)
from ottla.spark.migration.routing import TARGET
from ottla.spark.migration.values import Extent
from ottla.spark.migration.writer import WRITTEN, MigrationWriter
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.tasks import ReadTask, group_into_tasks

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
