"""Steps of a topic copy: the target partition of each record, the order of the records, and the groups' offsets in the target.

From DataFrame to DataFrame; `job` reads, writes and commits. A key's records keep their order: they come from one partition, go to one
partition, and the copy keeps the order of each source partition.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType, TimestampType

from ottla.spark.schemas import KAFKA_WITH_HEADERS

if TYPE_CHECKING:
    import pyarrow as pa

MURMUR2, CRC32 = "murmur2", "crc32"
PARTITIONERS: Final[Mapping[str, str]] = {
    MURMUR2: "the Java client's and kafka-python's",
    CRC32: "librdkafka's (confluent-kafka): consistent_random",
}

TARGET = StructField("target_partition", IntegerType())
LATEST = StructField("latest", TimestampType())
TIMED: Final = StructType([*KAFKA_WITH_HEADERS.fields, LATEST])
ROUTED: Final = StructType([*TIMED.fields, TARGET])

OFFSET_MAP: Final = StructType(
    [
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("target_partition", IntegerType()),
        StructField("target_offset", LongType()),
    ]
)
"""One row per copied record: its partition and offset in the source and in the target."""

COMMITS: Final = StructType(
    [StructField("group", StringType()), StructField("partition", IntegerType()), StructField("offset", LongType())]
)
"""The groups' committed offsets for the source: the next offset to read."""

TARGET_COMMITS: Final = StructType(
    [StructField("group", StringType()), StructField("target_partition", IntegerType()), StructField("target_offset", LongType())]
)


def with_latest_time(records: DataFrame) -> DataFrame:
    """Each record with the latest timestamp of its partition so far: timestamps may go backwards, offsets do not."""
    so_far = Window.partitionBy("partition").orderBy("offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    return records.withColumn(LATEST.name, F.max("timestamp").over(so_far))


def route(timed: DataFrame, partitions: int, partitioner: str) -> DataFrame:
    """Each record with its partition in the target: by its key, as producers will choose; without one, by its source partition."""
    by_source = F.pmod("partition", F.lit(partitions)).cast("int")
    if partitioner == CRC32:
        by_key: Column = F.pmod(F.crc32("key"), F.lit(partitions)).cast("int")
        return timed.withColumn(TARGET.name, F.when(F.col("key").isNull(), by_source).otherwise(by_key))
    routed = timed.mapInArrow(_murmur2(partitions), ROUTED)
    return routed.withColumn(TARGET.name, F.when(F.col("key").isNull(), by_source).otherwise(F.col(TARGET.name)))


def _murmur2(partitions: int) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def add(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        # In the worker, where the kernels run.
        import pyarrow as pa

        from ottla.columnar.partitioning import murmur2_partitions

        for batch in batches:
            yield batch.append_column(TARGET.name, pa.array(murmur2_partitions(batch.column("key"), partitions)))

    return add


def sort_for_copy(routed: DataFrame) -> DataFrame:
    """One task for one target partition or several; records by time, within the order of each source partition.

    Records of about the same time are then adjacent, and the unread records of a group close together.
    """
    return routed.repartition(TARGET.name).sortWithinPartitions(TARGET.name, LATEST.name, "partition", "offset")


def end_offsets(offset_map: DataFrame) -> DataFrame:
    """Target partition and its end, for those that have records."""
    return offset_map.groupBy("target_partition").agg((F.max("target_offset") + 1).alias("end_offset"))


def translate(commits: DataFrame, offset_map: DataFrame, partitions: int) -> DataFrame:
    """Each group's offset in every target partition: the first record that it has not read, else the end.

    Target partitions mix what came from several source partitions, so a group may read some records again; it misses none. Source
    partitions without a commit of the group count as not read.
    """
    places = offset_map.select("partition").distinct().crossJoin(commits.select("group").distinct())
    known = places.join(commits, ["group", "partition"], "left").withColumn("offset", F.coalesce("offset", F.lit(0)))
    unread = (
        offset_map.withColumnRenamed("offset", "source_offset")
        .join(F.broadcast(known), "partition")
        .where(F.col("source_offset") >= F.col("offset"))
        .groupBy("group", "target_partition")
        .agg(F.min("target_offset").alias("first_unread"))
    )
    numbers = commits.sparkSession.range(partitions).select(F.col("id").cast("int").alias("target_partition"))
    everywhere = commits.select("group").distinct().crossJoin(numbers)
    found = everywhere.join(unread, ["group", "target_partition"], "left").join(end_offsets(offset_map), "target_partition", "left")
    return found.select("group", "target_partition", F.coalesce("first_unread", "end_offset", F.lit(0)).cast("long").alias("target_offset"))


def commits_frame(like: DataFrame, commits: Mapping[str, Iterable[tuple[int, int]]]) -> DataFrame:
    """Commits (group → partition and offset) as a table in the session of `like`."""
    rows = [(group, partition, offset) for group, offsets in commits.items() for partition, offset in offsets]
    return like.sparkSession.createDataFrame(rows, COMMITS)
