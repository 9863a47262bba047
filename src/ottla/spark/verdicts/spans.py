"""Commits between two records of a group, summarised, and put in order with the records: the wide part of the work, as columns.

A segment is what lies between a group's record and its next one; segment 0 is before the first.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

_GROUP: Final = ("partition", "group")
OFFSETS_TOPIC_ROWS, EVENT_ROWS = 0, 1
ORDER: Final = ("source", "partition", "position", "is_spans")


def commit_spans(records: DataFrame, commits: DataFrame) -> DataFrame:
    """One row per group and segment with commits: of each partition the first commit, the last one, and how many."""
    is_record = F.col("is_record").isNotNull()
    timeline = commits.unionByName(records.select(*_GROUP, "offset", F.lit(True).alias("is_record")), allowMissingColumns=True)
    so_far = Window.partitionBy(*_GROUP).orderBy("offset").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    numbered = timeline.withColumn("segment", F.sum(is_record.cast("long")).over(so_far)).where(~is_record)
    of_partition = numbered.groupBy(*_GROUP, "segment", "topic", "topic_partition").agg(
        F.max("topic_id").alias("topic_id"),
        F.min_by("at_ms", "offset").alias("first_ms"),
        F.max_by("at_ms", "offset").alias("last_ms"),
        F.min_by("committed_offset", "offset").alias("first_offset"),
        F.max_by("committed_offset", "offset").alias("last_offset"),
        F.count("*").alias("commit_count"),
    )
    span = F.struct("topic", "topic_id", "topic_partition", "first_ms", "last_ms", "first_offset", "last_offset", "commit_count")
    return of_partition.groupBy(*_GROUP, "segment").agg(F.sort_array(F.collect_list(span)).alias("spans"))


def in_order(records: DataFrame, spans: DataFrame, events: DataFrame) -> DataFrame:
    """All rows of a group, to be sorted by ORDER: its records, each followed by the commits after it, and its events."""
    of_group = Window.partitionBy(*_GROUP).orderBy("offset")
    numbered = records.withColumn("position", F.row_number().over(of_group).cast("long")).withColumn("is_spans", F.lit(False))
    summed = spans.withColumnRenamed("segment", "position").withColumn("is_spans", F.lit(True))
    of_topic = numbered.drop("offset").unionByName(summed, allowMissingColumns=True).withColumn("source", F.lit(OFFSETS_TOPIC_ROWS))
    published = events.withColumnRenamed("offset", "position").withColumn("is_spans", F.lit(False)).withColumn("source", F.lit(EVENT_ROWS))
    return of_topic.unionByName(published, allowMissingColumns=True)
