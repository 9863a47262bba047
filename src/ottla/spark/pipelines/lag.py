"""The lags in time of the pipeline `lag`: the rules of ottla.history.time_lag, which explains them, as columns.

Times are in milliseconds since 1970. A frame of a window never reaches to the end of its partition: there Spark's time is quadratic.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from ottla.history.time_lag import DRAIN_MS_MAX, EXTRAPOLATED_MS_MAX, RATE_WINDOW_MS, Quality
from ottla.spark.group_records import COMMIT_RECORDS, offset_commits
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import END_OFFSETS, KAFKA, LAG, LAG_HISTORY, OFFSET_COMMITS

_PARTITION: Final = ("topic", "partition")
_KEY: Final = ("group", *_PARTITION)
NEXT, READ, LAST = "next", "read", "last"
"""The records whose times are needed: the one to be read next, the last one that was committed, the last one of the partition."""


def since_truncation(ends: DataFrame) -> DataFrame:
    """Measured ends since each log last became shorter."""
    in_order = Window.partitionBy(*_PARTITION).orderBy("measured_at", "end_offset")
    fell = F.when(F.col("end_offset") < F.lag("end_offset").over(in_order), F.col("measured_at"))
    fallen = ends.withColumn("fell_at", fell).withColumn("fell_at", F.max("fell_at").over(Window.partitionBy(*_PARTITION)))
    return fallen.where(F.col("fell_at").isNull() | (F.col("measured_at") >= F.col("fell_at"))).drop("fell_at")


def with_record_times(lags: DataFrame, ends: DataFrame, records: DataFrame) -> DataFrame:
    """Rows of a lag in messages with the age of the next record and the freshness."""
    wanted = F.array(
        F.struct(F.lit(NEXT).alias("name"), F.greatest("committed_offset", "start_offset").alias("offset")),
        F.struct(F.lit(READ).alias("name"), F.try_subtract("committed_offset", F.lit(1)).alias("offset")),
        F.struct(F.lit(LAST).alias("name"), (F.col("end_offset") - 1).alias("offset")),
    )
    lookups = lags.select(*_KEY, F.explode(wanted).alias("wanted")).select(*_KEY, "wanted.*")
    found = times_of_records(lookups, ends, records)
    times = F.struct("estimate", "first", "last", "has_records")
    of = {name: F.max_by(times, F.when(F.col("name") == name, 1)).alias(f"of_{name}") for name in (NEXT, READ, LAST)}
    by_name = found.groupBy(*_KEY).agg(*of.values())
    joined = lags.join(by_name, [*_KEY])
    return joined.select(*lags.columns, *_next_record_age(), *_freshness())


def times_of_records(lookups: DataFrame, ends: DataFrame, records: DataFrame) -> DataFrame:
    """For each offset an estimate of its record's time, the first record from there on, and the last one up to there."""
    points = ends.groupBy(*_PARTITION, F.col("end_offset").alias("offset")).agg(
        F.min(F.unix_millis("measured_at")).alias("reached"), F.max(F.unix_millis("measured_at")).alias("left")
    )
    point = F.struct(F.col("offset").alias("end"), "reached", "left")
    record = F.struct("offset", F.unix_millis("timestamp").alias("at_ms"))
    known = points.select(*_PARTITION, "offset", point.alias("point")).unionByName(
        records.select(*_PARTITION, "offset", record.alias("record")), allowMissingColumns=True
    )
    timeline = known.unionByName(lookups, allowMissingColumns=True).withColumn("is_lookup", F.col("name").isNotNull())
    of_partition = Window.partitionBy(*_PARTITION)
    before = of_partition.orderBy("offset", "is_lookup").rowsBetween(Window.unboundedPreceding, Window.currentRow)
    after = of_partition.orderBy(F.desc("offset"), F.desc("is_lookup")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    seen = timeline.select(
        *_KEY,
        "name",
        "offset",
        F.last("point", ignorenulls=True).over(before).alias("previous"),
        F.last("point", ignorenulls=True).over(after).alias("following"),
        F.max("point").over(of_partition).alias("newest"),
        F.last("record", ignorenulls=True).over(before).alias("last"),
        F.last("record", ignorenulls=True).over(after).alias("first"),
        (F.count("record").over(of_partition) > 0).alias("has_records"),
    ).where(F.col("name").isNotNull())
    is_there = F.col("last.offset") == F.col("offset")
    return seen.withColumn("first", F.when(is_there, F.col("last")).otherwise(F.col("first"))).withColumn("estimate", _estimate())


def _estimate() -> Column:
    """The time of the record at `offset`: between the points around it, or before the first point."""
    previous, following, newest = F.col("previous"), F.col("following"), F.col("newest")
    records = following["end"] - F.col("offset") - 1
    between = F.floor(records / (following["end"] - previous["end"]) * (following["reached"] - previous["left"]))
    earlier = F.floor(records / (newest["end"] - following["end"]) * (newest["reached"] - following["reached"]))
    has_rate = (newest["end"] > following["end"]) & (newest["reached"] > following["reached"])
    ms = F.when(previous.isNotNull(), following["reached"] - between).when(
        has_rate, following["reached"] - F.least(earlier, F.lit(EXTRAPOLATED_MS_MAX))
    )
    quality = (
        F.when(following.isNull(), Quality.UNKNOWN)
        .when(previous.isNotNull(), Quality.INTERPOLATED)
        .when(has_rate, Quality.CAPPED)
        .otherwise(Quality.UNKNOWN)
    )
    return F.struct(F.when(following.isNotNull(), ms).alias("ms"), quality.alias("quality"))


def _next_record_age() -> tuple[Column, Column]:
    now_ms = F.unix_millis("measured_at")
    first = F.when(F.col("of_next.first.offset") < F.col("end_offset"), F.col("of_next.first.at_ms"))
    waits = F.greatest("committed_offset", "start_offset") < F.col("end_offset")
    is_known = F.col("of_next.has_records")
    is_none = ~waits | (is_known & first.isNull())
    ms = F.when(is_none, 0).otherwise(F.greatest(F.lit(0), now_ms - F.when(is_known, first).otherwise(F.col("of_next.estimate.ms"))))
    quality = F.when(is_none | is_known, Quality.EXACT).otherwise(F.col("of_next.estimate.quality"))
    return _named("next_record_age", F.when(_is_judged() & (quality != Quality.UNKNOWN), ms), quality)


def _freshness() -> tuple[Column, Column]:
    read, last = F.col("of_read.last.at_ms"), F.col("of_last.last.at_ms")
    is_exact = read.isNotNull() & last.isNotNull()
    estimates = F.array("of_read.estimate.quality", "of_last.estimate.quality")
    worst = [F.when(F.array_contains(estimates, each), each) for each in (Quality.UNKNOWN, Quality.CAPPED)]
    is_none = F.col("committed_offset") == F.col("end_offset")
    estimate = F.col("of_last.estimate.ms") - F.col("of_read.estimate.ms")
    quality = (
        F.when(is_none, Quality.EXACT)
        .when(F.col("committed_offset") == 0, Quality.UNKNOWN)
        .when(is_exact, Quality.EXACT)
        .otherwise(F.coalesce(*worst, F.lit(Quality.INTERPOLATED)))
    )
    between = F.when(is_none, 0).when(is_exact, last - read).otherwise(estimate)
    return _named("freshness", F.when(_is_judged() & (quality != Quality.UNKNOWN), F.greatest(F.lit(0), between)), quality)


def with_drain_times(rows: DataFrame, lags: DataFrame, ends: DataFrame, commits: DataFrame) -> DataFrame:
    """Rows with the rates of commits and of the log, and the time until the lag is gone if they stay.

    `rows` are those of `lags`, with more columns: the rates are looked up by `lags`, which cost less to compute once more.
    """
    committed = commits.where(~F.col("is_tombstone")).select(
        "group", "topic", F.col("topic_partition").alias("partition"), F.coalesce("commit_timestamp", "timestamp"), "committed_offset"
    )
    consumed = _rates(committed.toDF(*_KEY, "at", "position"), lags.select(*_KEY, "measured_at"), _KEY, "consumed_per_s")
    written = ends.select(*_PARTITION, F.col("measured_at").alias("at"), F.col("end_offset").alias("position"))
    produced = _rates(written, lags.select(*_PARTITION, "measured_at").distinct(), _PARTITION, "produced_per_s")
    joined = rows.join(consumed, [*_KEY], "left").join(produced, [*_PARTITION], "left")
    gain = F.col("consumed_per_s") - F.col("produced_per_s")
    ms = (F.col("end_offset") - F.col("committed_offset")) / gain * 1000
    drain_ms = F.when(F.col("committed_offset") == F.col("end_offset"), 0).when(
        gain > 0, F.when(ms > DRAIN_MS_MAX, DRAIN_MS_MAX).otherwise(F.bround(ms))
    )
    quality = (
        F.when(F.col("committed_offset") == F.col("end_offset"), Quality.EXACT)
        .when(gain > 0, F.when(ms > DRAIN_MS_MAX, Quality.CAPPED).otherwise(Quality.INTERPOLATED))
        .otherwise(Quality.UNKNOWN)
    )
    return joined.select("*", *_named("drain", F.when(_is_judged(), drain_ms), quality))


def _rates(points: DataFrame, until: DataFrame, key: tuple[str, ...], name: str) -> DataFrame:
    """Offsets a second from the first point of the last RATE_WINDOW_MS until `measured_at`."""
    at_ms, now_ms = F.unix_millis("at"), F.unix_millis("measured_at")
    recent = points.join(until, [*key]).where((at_ms <= now_ms) & (at_ms >= now_ms - RATE_WINDOW_MS))
    point = F.struct(at_ms.alias("at_ms"), "position")
    found = recent.groupBy(*key).agg(
        F.min(point).alias("first"), F.max(point).alias("last"), F.count("*").alias("points"), F.max(now_ms).alias("now_ms")
    )
    ms = F.col("now_ms") - F.col("first.at_ms")
    rate = F.when((F.col("points") > 1) & (ms > 0), (F.col("last.position") - F.col("first.position")) * 1000 / ms)
    return found.select(*key, rate.alias(name))


def _is_judged() -> Column:
    """Of a commit beyond the end nothing is known: the topic was truncated or re-created."""
    return F.col("committed_offset") <= F.col("end_offset")


def _named(name: str, ms: Column, quality: Column) -> tuple[Column, Column]:
    judged = F.when(_is_judged(), quality).otherwise(Quality.UNKNOWN)
    return ms.cast("long").alias(f"{name}_ms"), judged.alias(f"{name}_quality")


# Commits and end offsets to each group's lag in messages and in time now, and in messages at each commit and each measured end.
#
# The lag of a partition is its end offset minus what the group has committed for it. Deleted offsets (whose latest
# record is a tombstone) and deleted topics (without an end) do not count. It never opens a source and measures nothing.

TOPIC_RECORDS: Final = StructType([KAFKA[name] for name in ("topic", "partition", "offset", "timestamp")])
STEP_MS: Final = 100
"""The resolution of a topic's end offsets over time: precise enough, with far fewer rows than records."""

COMMIT, TOMBSTONE, END = "commit", "tombstone", "end"
_PARTITION_KEY: Final = ("group", "topic", "partition")


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
    joined = latest.where(~F.col("commit.is_tombstone")).join(ends, ["topic", "partition"]).select(*_PARTITION_KEY, "commit.*", "end.*")
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
    of_groups = commits.select(*_PARTITION_KEY).distinct()
    ends = (
        end_offset_history.unionByName(topic_ends)
        .join(of_groups, ["topic", "partition"])
        .select(
            *_PARTITION_KEY,
            F.col("measured_at").alias("at"),
            F.lit(END).alias("event"),
            F.lit(None).cast("long").alias("offset"),
            F.lit(None).cast("long").alias("committed_offset"),
            "end_offset",
        )
    )
    is_end = F.col("event") == END
    # At the same time the end comes first: a commit of what has just been written is not beyond it.
    in_order = Window.partitionBy(*_PARTITION_KEY).orderBy("at", F.desc(is_end), F.coalesce("offset", "end_offset"))
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    known = commits.unionByName(ends).select(
        *_PARTITION_KEY,
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
