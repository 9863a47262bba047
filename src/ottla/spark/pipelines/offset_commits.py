"""Group records to one row a commit (tombstones as such), and to a count of every kind of record, known or not.

It follows the records and judges nothing: what was committed twice is there twice. It never opens a source.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.spark.group_records import COMMIT_RECORDS, offset_commits
from ottla.spark.pipelines import Pipeline, Step
from ottla.spark.schemas import GROUP_RECORD_COUNTS, OFFSET_COMMITS


def count_records(group_records: DataFrame) -> DataFrame:
    """How many records of each type, version and partition there are; record types that nobody knows are counted too."""
    kind = ("partition", "record_type", "value_version", "is_known", "is_tombstone")
    counted = group_records.groupBy(*kind).agg(
        F.count("*").alias("records"), F.min("offset").alias("first_offset"), F.max("offset").alias("last_offset")
    )
    return counted.select(*GROUP_RECORD_COUNTS.fieldNames())


def overview(commits: DataFrame) -> DataFrame:
    """A row a group and topic: its partitions, commits and tombstones, and when."""
    by_topic = commits.groupBy("group", "topic").agg(
        F.count_distinct("topic_partition").alias("partitions"),
        F.count_if(~F.col("is_tombstone")).alias("commits"),
        F.count_if("is_tombstone").alias("tombstones"),
        F.date_format(F.min("commit_timestamp"), "MM-dd HH:mm:ss").alias("first"),
        F.date_format(F.max("commit_timestamp"), "MM-dd HH:mm:ss").alias("last"),
    )
    return by_topic.orderBy("group", "topic")


PIPELINE = Pipeline(
    inputs={"group_records": COMMIT_RECORDS},
    outputs={"offset_commits": OFFSET_COMMITS, "group_record_counts": GROUP_RECORD_COUNTS},
    appended={"offset_commits": OFFSET_COMMITS, "group_record_counts": GROUP_RECORD_COUNTS},
    steps=(
        Step(offset_commits, ("group_records",), "offset_commits"),
        Step(count_records, ("group_records",), "group_record_counts"),
    ),
    overview=overview,
)
