"""Commits and end offsets to each group's lag in messages and in time now, and in messages at each commit and each measured end.

The lag of a partition is its end offset minus what the group has committed for it. Deleted offsets (whose latest
record is a tombstone) and deleted topics (without an end) do not count. It never opens a source and measures nothing.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.spark.group_records import COMMIT_RECORDS, offset_commits
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import END_OFFSETS, KAFKA, LAG, LAG_HISTORY, OFFSET_COMMITS
from ottla.spark.time_lags import since_truncation, with_drain_times, with_record_times

TOPIC_RECORDS: Final = StructType([KAFKA[name] for name in ("topic", "partition", "offset", "timestamp")])
STEP_MS: Final = 100
"""The resolution of a topic's end offsets over time: precise enough, with far fewer rows than records."""

COMMIT, TOMBSTONE, END = "commit", "tombstone", "end"
_KEY: Final = ("group", "topic", "partition")


def keep_ends(end_offsets: DataFrame) -> DataFrame:
    """The measured end offsets unchanged: a stream stores every measurement, a batch its one."""
    return end_offsets


def topic_ends(topic_records: DataFrame) -> DataFrame:
    """End offsets of each partition over time, by its records' timestamps.

    A record that is older than one before it moves no end back in time: producers' timestamps may be wrong.
    """
    step = F.floor(F.unix_millis("timestamp") / STEP_MS)
    of_step = topic_records.groupBy("topic", "partition", step.alias("step")).agg(
        F.max("offset").alias("last"), F.min("offset").alias("first"), F.max("timestamp").alias("measured_at")
    )
    in_order = Window.partitionBy("topic", "partition").orderBy("step")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, 0)
    # Backwards: with a frame to the end Spark would go through all later rows at each row.
    later = Window.partitionBy("topic", "partition").orderBy(F.desc("step")).rowsBetween(Window.unboundedPreceding, -1)
    # least() ignores null: there is no step after the last one.
    end = F.least(F.max("last").over(so_far) + 1, F.min("first").over(later))
    return of_step.select("topic", "partition", F.lit(None).cast("long"), end, "measured_at").toDF(*END_OFFSETS.fieldNames())


def lag_now(offset_commits: DataFrame, end_offsets: DataFrame) -> DataFrame:
    """The lag in messages by each partition's latest commit and latest end; partitions without either are left out."""
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
    )


def known_ends(end_offset_history: DataFrame, end_offsets: DataFrame, past_end_offsets: DataFrame, topic_ends: DataFrame) -> DataFrame:
    """Where each log ended at which times: measured since it last became shorter, and by the timestamps of its records."""
    return since_truncation(end_offset_history.unionByName(end_offsets)).unionByName(past_end_offsets).unionByName(topic_ends)


def lag(lags: DataFrame, ends: DataFrame, offset_commits: DataFrame, topic_records: DataFrame) -> DataFrame:
    """The lag in messages and in time, as the table `lag`."""
    return with_drain_times(with_record_times(lags, ends, topic_records), lags, ends, offset_commits).select(*LAG.fieldNames())


def lag_history(offset_commits: DataFrame, end_offset_history: DataFrame, topic_ends: DataFrame) -> DataFrame:
    """The lag at each commit and each end offset, with the last known of the other kind."""
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
    # At the same time the end comes first: a commit of what has just been written is not beyond it.
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
    behind = F.try_subtract("end_offset", "committed_offset")
    return F.when(behind < 0, F.lit(0).cast("long")).otherwise(behind)


def overview(lags: DataFrame) -> DataFrame:
    """One row per group and topic, the largest lag first."""
    by_topic = lags.groupBy("group", "topic").agg(
        F.count("*").alias("partitions"),
        F.sum("lag").alias("lag"),
        F.concat_ws(": ", F.max_by("partition", "lag"), F.max("lag")).alias("worst"),
        F.count_if("is_beyond_end").alias("beyond"),
        F.round(F.max("next_record_age_ms") / 1000).cast("long").alias("age s"),
        F.date_format(F.max("committed_at"), "MM-dd HH:mm:ss").alias("last commit"),
    )
    return by_topic.orderBy(F.desc("lag"), "group", "topic")


PIPELINE = Pipeline(
    inputs={
        "committed_group_records": COMMIT_RECORDS,
        "topic_records": TOPIC_RECORDS,
        "end_offsets": END_OFFSETS,
        "past_end_offsets": END_OFFSETS,
    },
    outputs={"lag": LAG, "lag_history": LAG_HISTORY},
    appended={"lag_commits": OFFSET_COMMITS, "end_offset_history": END_OFFSETS},
    steps=(
        PipelineStep(offset_commits, ("committed_group_records",), "lag_commits"),
        PipelineStep(keep_ends, ("end_offsets",), "end_offset_history"),
        PipelineStep(topic_ends, ("topic_records",), "topic_ends"),
        PipelineStep(lag_now, ("lag_commits", "end_offsets"), "lag_now"),
        PipelineStep(known_ends, ("end_offset_history", "end_offsets", "past_end_offsets", "topic_ends"), "known_ends"),
        PipelineStep(lag, ("lag_now", "known_ends", "lag_commits", "topic_records"), "lag"),
        PipelineStep(lag_history, ("lag_commits", "end_offset_history", "topic_ends"), "lag_history"),
    ),
    overview=overview,
    reused=("topic_records",),
    time="committed_at",
)
