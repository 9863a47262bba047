"""Commits and end offsets to Burrow's status of each group: its own rules and settings, from the last commits of each partition.

Spark finds the last commits, the lag at each of them and the last log ends; ottla.history.burrow decides, once per group. It never
opens a source and measures nothing: "now" is when the end offsets were last measured.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ottla.history.burrow import (
    LOG_END_INTERVAL_MS,
    BurrowSettings,
    Commit,
    CommitWindow,
    GroupStatus,
    Partition,
    PartitionStatus,
    evaluate_group,
)
from ottla.spark.group_records import COMMIT_RECORDS, offset_commits
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import COMMITTED, END_OFFSETS, GROUP_STATUS

END_AGE_MAX_MS: Final = 60_000
"""The lag at a commit is not known if the end was last measured longer before it."""

_KEY: Final = ("group", "topic", "partition")


def committed(group_records: DataFrame) -> DataFrame:
    """One row per commit and per tombstone, with what a status needs."""
    commits = offset_commits(group_records).withColumn("committed_at", F.coalesce("commit_timestamp", "timestamp"))
    return commits.drop("partition").withColumnRenamed("topic_partition", "partition").select(*COMMITTED.fieldNames())


def keep_ends(end_offsets: DataFrame) -> DataFrame:
    """The measured end offsets unchanged: a stream stores every measurement, a batch its one."""
    return end_offsets


def last_commits(commits: DataFrame, settings: BurrowSettings) -> DataFrame:
    """The commits that a status can depend on: those since a partition's offset was last deleted, and of these the last few."""
    of_partition = Window.partitionBy(*_KEY)
    deleted = F.max(F.when(F.col("is_tombstone"), F.col("offset"))).over(of_partition)
    alive = commits.withColumn("deleted", deleted).where(F.col("deleted").isNull() | (F.col("offset") > F.col("deleted"))).drop("deleted")
    if settings.min_distance > 0:
        return alive  # Which commits are kept depends on all before them.
    in_order = of_partition.orderBy("offset")
    latest = F.max("committed_at").over(in_order.rowsBetween(Window.unboundedPreceding, -1))
    # A commit that is older than one before it fills no place of its own.
    is_new = (F.coalesce(F.col("committed_at") >= latest, F.lit(True))).cast("int")
    numbered = alive.withColumn("is_new", is_new)
    later = of_partition.orderBy(F.desc("offset")).rowsBetween(Window.unboundedPreceding, Window.currentRow)
    from_end = F.sum("is_new").over(later) + 1 - F.col("is_new")
    return numbered.withColumn("from_end", from_end).where(F.col("from_end") <= settings.intervals).select(*COMMITTED.fieldNames())


def lags_at_commits(commits: DataFrame, ends: DataFrame) -> DataFrame:
    """Commits with the lag by the end known at their time; null if none was measured within END_AGE_MAX_MS before."""
    is_end = F.col("end_offset").isNotNull()
    known = commits.withColumn("at", F.col("committed_at")).unionByName(
        ends.select("topic", "partition", "end_offset", F.col("measured_at").alias("at")), allowMissingColumns=True
    )
    in_order = Window.partitionBy("topic", "partition").orderBy("at", F.desc(is_end), "end_offset")
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    last = F.last(F.when(is_end, F.struct("end_offset", "at")), ignorenulls=True).over(so_far)
    is_recent = F.unix_millis("committed_at") - F.unix_millis("last.at") <= END_AGE_MAX_MS
    lag = F.when(is_recent, F.greatest(F.col("last.end_offset") - F.col("committed_offset"), F.lit(0)))
    return known.withColumn("last", last).where(F.col("group").isNotNull()).select(*COMMITTED.fieldNames(), lag.alias("lag"))


def partitions_of_groups(commits: DataFrame, end_offsets: DataFrame, history: DataFrame, settings: BurrowSettings) -> DataFrame:
    """One row per group: commits and log ends of each partition of the topics that it has committed; topics without an end are gone."""
    ends = history.unionByName(end_offsets).where(F.col("end_offset").isNotNull()).distinct()
    kept = lags_at_commits(last_commits(commits, settings), ends)
    commit = F.struct("offset", "committed_offset", F.unix_millis("committed_at").alias("at_ms"), "lag")
    of_partition = kept.groupBy(*_KEY).agg(F.sort_array(F.collect_list(commit)).alias("commits"))
    slot = F.floor(F.unix_millis("measured_at") / LOG_END_INTERVAL_MS)
    of_slot = ends.groupBy("topic", "partition", slot.alias("slot")).agg(F.max_by("end_offset", "measured_at").alias("end"))
    slots = F.sort_array(F.collect_list(F.struct("slot", "end")))
    log_ends = of_slot.groupBy("topic", "partition").agg(_last(F.transform(slots, lambda each: each["end"]), settings.intervals))
    latest = end_offsets.groupBy("topic", "partition").agg(F.max_by("end_offset", "measured_at").alias("log_end"))
    topics = kept.select("group", "topic").distinct()
    all_partitions = latest.join(log_ends, ["topic", "partition"]).join(topics, "topic").join(of_partition, [*_KEY], "left")
    found = all_partitions.groupBy("group").agg(
        F.collect_list(F.struct("topic", "partition", "log_end", "log_ends", "commits")).alias("partitions")
    )
    now = end_offsets.select(F.unix_millis(F.max("measured_at")).alias("now_ms"))
    return found.crossJoin(F.broadcast(now))


def _last(values: Column, count: int) -> Column:
    """The last few of an array that has at least one."""
    return F.slice(values, -F.least(F.size(values), F.lit(count)), F.lit(count)).alias("log_ends")


def evaluate(groups: Iterable[pa.RecordBatch], settings: BurrowSettings) -> Iterator[pa.RecordBatch]:
    """Rows of `partitions_of_groups` to rows of `group_status`; in a Python worker."""
    for batch in groups:
        rows = [_row(each["group"], each["now_ms"], _evaluated(each, settings)) for each in batch.to_pylist()]
        yield pa.RecordBatch.from_pylist(rows, schema=_ARROW)


def _evaluated(row: Mapping[str, Any], settings: BurrowSettings) -> GroupStatus:
    partitions = []
    for partition in row["partitions"]:
        window = CommitWindow(settings)
        for commit in partition["commits"] or ():
            window.add(commit["committed_offset"], commit["at_ms"], commit["lag"])
        partitions.append(
            Partition(partition["topic"], partition["partition"], window.commits, partition["log_ends"], partition["log_end"])
        )
    return evaluate_group(partitions, row["now_ms"], settings)


def _row(group: str, now_ms: int, found: GroupStatus) -> dict[str, Any]:
    return {
        "group": group,
        "status": found.status.name,
        "complete": found.complete,
        "total_lag": found.total_lag,
        "partition_count": len(found.partitions),
        "maxlag": None if found.maxlag is None else _partition(found.maxlag),
        "partitions": [_partition(partition) for partition in found.partitions],
        "evaluated_at": now_ms * 1000,
    }


def _partition(found: PartitionStatus) -> dict[str, Any]:
    return {**found._asdict(), "status": found.status.name, "start": _commit(found.start), "end": _commit(found.end)}


def _commit(commit: Commit | None) -> dict[str, Any] | None:
    return None if commit is None else {"offset": commit.offset, "at": commit.at_ms * 1000, "lag": commit.lag}


_TIME = pa.timestamp("us", tz="UTC")
_ARROW_COMMIT = pa.struct({"offset": pa.int64(), "at": _TIME, "lag": pa.int64()})
_ARROW_PARTITION = pa.struct(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "status": pa.string(),
        "current_lag": pa.int64(),
        "complete": pa.float64(),
        "start": _ARROW_COMMIT,
        "end": _ARROW_COMMIT,
    }
)
_ARROW = pa.schema(
    {
        "group": pa.string(),
        "status": pa.string(),
        "complete": pa.float64(),
        "total_lag": pa.int64(),
        "partition_count": pa.int32(),
        "maxlag": _ARROW_PARTITION,
        "partitions": pa.list_(_ARROW_PARTITION),
        "evaluated_at": _TIME,
    }
)


def overview(statuses: DataFrame) -> DataFrame:
    """One row per group, the worst first, with its worst partition."""
    order = F.array_position(F.array(*map(F.lit, ("ERR", "WARN", "OK"))), F.col("status"))
    bad = F.filter("partitions", lambda each: each["status"] != "OK")
    worst = F.concat_ws("-", "maxlag.topic", "maxlag.partition")
    return statuses.orderBy(F.when(order > 0, order).otherwise(9), F.desc("total_lag"), "group").select(
        "group",
        "status",
        F.concat_ws(" ", F.array_distinct(F.transform(bad, lambda each: each["status"]))).alias("partitions"),
        F.col("total_lag").alias("lag"),
        worst.alias("greatest lag"),
        F.col("maxlag.current_lag").alias("its lag"),
        F.concat(F.round(F.col("complete") * 100).cast("int"), F.lit(" %")).alias("complete"),
    )


def configure(texts: Mapping[str, str]) -> Pipeline:
    """The pipeline with Burrow's settings, by Burrow's names. Raises ValueError with a sentence."""
    settings = BurrowSettings.parse(texts)

    def group_status(commits: DataFrame, end_offsets: DataFrame, history: DataFrame, past_end_offsets: DataFrame) -> DataFrame:
        known = partitions_of_groups(commits, end_offsets, history.unionByName(past_end_offsets), settings)
        return known.mapInArrow(partial(evaluate, settings=settings), GROUP_STATUS)

    inputs = ("group_status_commits", "end_offsets", "group_status_ends", "past_end_offsets")
    return Pipeline(
        inputs={"committed_group_records": COMMIT_RECORDS, "end_offsets": END_OFFSETS, "past_end_offsets": END_OFFSETS},
        outputs={"group_status": GROUP_STATUS},
        appended={"group_status_commits": COMMITTED, "group_status_ends": END_OFFSETS},
        steps=(
            PipelineStep(committed, ("committed_group_records",), "group_status_commits"),
            PipelineStep(keep_ends, ("end_offsets",), "group_status_ends"),
            PipelineStep(group_status, inputs, "group_status"),
        ),
        overview=overview,
        configure=configure,
    )


PIPELINE = configure({})
