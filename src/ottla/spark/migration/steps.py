"""The Spark jobs of a migration: tasks that read, chunks that move to the tasks that write them, summaries of the target, and
forecasts.

Records are rows of Spark nowhere: the tasks read and write them as Arrow.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.spark.migration.chunks import BUCKET, CHUNK_ORDER, CHUNKS, ChunkReader
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
    ranges = [OffsetRange(topic, partition, start, end, topic_id) for partition, (start, end) in sorted(extents.items())]
    return tuple(group_into_tasks(ranges, tasks_max))


def copy_batch(spark: SparkSession, reader: ChunkReader, writer: MigrationWriter) -> dict[int, int]:
    """Copy what the reader's tasks read; the number of written records by target partition."""
    chunks = rows_of_tasks(spark, len(reader.tasks), reader, CHUNKS)
    with _small_batches(spark):
        rows = order_chunks(chunks, reader.buckets).mapInArrow(writer, WRITTEN).collect()
    return {row[TARGET]: row["records"] for row in rows}


def order_chunks(chunks: DataFrame, buckets: int) -> DataFrame:
    """Each chunk in the Spark partition of its bucket, in the order of their first records."""
    return chunks.repartitionById(buckets, F.col(BUCKET)).sortWithinPartitions(*CHUNK_ORDER)


def summarize(spark: SparkSession, reader: SummaryReader) -> dict[int, Summary]:
    """The summaries of the target partitions that the reader's tasks read."""
    rows = rows_of_tasks(spark, len(reader.tasks), reader, SUMMARIES).collect()
    return {row[TARGET]: summary_of(row) for row in rows}


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
