"""Commits and end offsets to each group's lag in messages: as it is now, and as it was at each commit and each measured end.

The lag of a partition is its end offset minus what the group has committed for it. What was deleted does not count: offsets whose latest
record is a tombstone, topics that have no end any more. It never opens a source and measures nothing.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.spark.group_records import COMMIT_RECORDS, offset_commits
from ottla.spark.pipelines import Pipeline, Step
from ottla.spark.schemas import END_OFFSETS, KAFKA, LAG, LAG_HISTORY, OFFSET_COMMITS

TOPIC_RECORDS: Final = StructType([KAFKA[name] for name in ("topic", "partition", "offset", "timestamp")])
STEP_MS: Final = 100
"""A topic's records tell its end at each tenth of a second: for a picture that is exact, and it is far fewer rows than records."""

COMMIT, TOMBSTONE, END = "commit", "tombstone", "end"
_KEY: Final = ("group", "topic", "partition")


def keep_ends(end_offsets: DataFrame) -> DataFrame:
    """What was measured, as it is: a stream keeps every measurement, a batch its one."""
    return end_offsets


def topic_ends(topic_records: DataFrame) -> DataFrame:
    """Where each partition ended over time by its records' timestamps.

    A record that is older than one before it moves no end back in time: its timestamp is its producer's and may lie.
    """
    step = F.floor(F.unix_millis("timestamp") / STEP_MS)
    of_step = topic_records.groupBy("topic", "partition", step.alias("step")).agg(
        F.max("offset").alias("last"), F.min("offset").alias("first"), F.max("timestamp").alias("measured_at")
    )
    in_order = Window.partitionBy("topic", "partition").orderBy("step")
    so_far, later = in_order.rowsBetween(Window.unboundedPreceding, 0), in_order.rowsBetween(1, Window.unboundedFollowing)
    # least() passes over null: after the last step nothing comes.
    end = F.least(F.max("last").over(so_far) + 1, F.min("first").over(later))
    return of_step.select("topic", "partition", F.lit(None).cast("long"), end, "measured_at").toDF(*END_OFFSETS.fieldNames())


def lag(offset_commits: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """The lag by each partition's latest commit and latest end; partitions without either are left out."""
    value = F.struct("committed_offset", "is_tombstone", F.col("commit_timestamp").alias("committed_at"))
    latest = offset_commits.groupBy("group", "topic", F.col("topic_partition").alias("partition")).agg(
        F.max_by(value, F.struct("partition", "offset")).alias("commit")
    )
    ends = end_offsets.groupBy("topic", "partition").agg(
        F.max_by(F.struct("start_offset", "end_offset", "measured_at"), "measured_at").alias("end")
    )
    joined = latest.where(~F.col("commit.is_tombstone")).join(ends, ["topic", "partition"]).select(*_KEY, "commit.*", "end.*")
    return joined.select(
        "*",
        _behind().alias("lag"),
        (F.col("committed_offset") > F.col("end_offset")).alias("is_beyond_end"),
        (F.col("committed_offset") < F.col("start_offset")).alias("is_before_start"),
    ).select(*LAG.fieldNames())


def lag_history(offset_commits: DataFrame, end_offset_history: DataFrame, topic_ends: DataFrame) -> DataFrame:
    """The lag whenever a commit or an end offset is known anew, each with the last known of the other kind."""
    commits = offset_commits.select(
        "group",
        "topic",
        F.col("topic_partition").alias("partition"),
        F.coalesce("commit_timestamp", "timestamp").alias("at"),
        F.when(F.col("is_tombstone"), TOMBSTONE).otherwise(COMMIT).alias("event"),
        "offset",
        "committed_offset",
        F.lit(None).cast("long").alias("end_offset"),
    )
    of_groups = commits.select(*_KEY).distinct()
    ends = (
        end_offset_history.unionByName(topic_ends)
        .join(of_groups, ["topic", "partition"])
        .select(
            *_KEY,
            F.col("measured_at").alias("at"),
            F.lit(END).alias("event"),
            F.lit(None).cast("long").alias("offset"),
            F.lit(None).cast("long").alias("committed_offset"),
            "end_offset",
        )
    )
    is_end = F.col("event") == END
    # Of the same moment the end comes first: a commit of what has just been written is not beyond it.
    in_order = Window.partitionBy(*_KEY).orderBy("at", F.desc(is_end), F.coalesce("offset", "end_offset"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = commits.unionByName(ends).select(
        *_KEY,
        "at",
        "event",
        # A tombstone is known, too, and has no offset: hence the struct, which is not null.
        F.last(F.when(~is_end, F.struct("committed_offset")), ignorenulls=True).over(so_far)["committed_offset"].alias("committed_offset"),
        F.last("end_offset", ignorenulls=True).over(so_far).alias("end_offset"),
    )
    return known.select(
        "*",
        _behind().alias("lag"),
        (F.col("committed_offset") > F.col("end_offset")).alias("is_beyond_end"),
    ).select(*LAG_HISTORY.fieldNames())


def _behind() -> Column:
    """Messages between the committed offset and the end, none when the commit is beyond it; null when one is not known."""
    behind = F.col("end_offset") - F.col("committed_offset")
    return F.when(behind < 0, F.lit(0).cast("long")).otherwise(behind)


def overview(lags: DataFrame) -> DataFrame:
    """A row a group and topic, those that are furthest behind first."""
    by_topic = lags.groupBy("group", "topic").agg(
        F.count("*").alias("partitions"),
        F.sum("lag").alias("lag"),
        F.concat_ws(": ", F.max_by("partition", "lag"), F.max("lag")).alias("worst"),
        F.count_if("is_beyond_end").alias("beyond"),
        F.date_format(F.max("committed_at"), "MM-dd HH:mm:ss").alias("last commit"),
    )
    return by_topic.orderBy(F.desc("lag"), "group", "topic")


PIPELINE = Pipeline(
    inputs={"committed_group_records": COMMIT_RECORDS, "topic_records": TOPIC_RECORDS, "end_offsets": END_OFFSETS},
    outputs={"lag": LAG, "lag_history": LAG_HISTORY},
    appended={"lag_commits": OFFSET_COMMITS, "end_offset_history": END_OFFSETS},
    steps=(
        Step(offset_commits, ("committed_group_records",), "lag_commits"),
        Step(keep_ends, ("end_offsets",), "end_offset_history"),
        Step(topic_ends, ("topic_records",), "topic_ends"),
        Step(lag, ("lag_commits", "end_offsets"), "lag"),
        Step(lag_history, ("lag_commits", "end_offset_history", "topic_ends"), "lag_history"),
    ),
    overview=overview,
)
