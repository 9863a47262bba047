"""Group records, and group events where there are any, to verdicts: why each rebalance happened, its cost, what would have avoided it;
and verdicts to incidents: what happened to which groups.

The decisions are those of ottla.history.verdicts, as in `ottla diagnose`, run once per group. Spark summarises the commits between two
records of a group, and puts them in order with the records: the wide part of the work, as columns. A segment is what lies between a
group's record and its next one; segment 0 is before the first. It never opens a source.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ottla.groups.log.records import CONSUMER_GROUP_TYPES
from ottla.spark.evidence_rows import judge_rows
from ottla.spark.group_records import COMMIT_RECORDS, apply_by_group, columns, offset_commits
from ottla.spark.incident_rows import incident_batches
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import INCIDENTS, KAFKA, VERDICT_COMMITS, VERDICT_RECORDS, VERDICTS

_GROUP: Final = ("partition", "group")
OFFSETS_TOPIC_ROWS, EVENT_ROWS = 0, 1
ORDER: Final = ("source", "partition", "position", "is_spans")

GROUP_RECORDS: Final = columns(
    *("partition", "offset", "timestamp", "record_type", "is_known", "is_tombstone", "group"),
    *("generation", "protocol", "leader", "state_timestamp", "members", "record"),
    *COMMIT_RECORDS.fieldNames(),
)


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


def verdict_records(group_records: DataFrame) -> DataFrame:
    """The records of groups themselves, classic and KIP-848."""
    found = group_records.where(F.col("record_type").isin(*CONSUMER_GROUP_TYPES) & F.col("is_known"))
    times = {"at_ms": F.unix_millis("timestamp"), "state_ms": F.unix_millis("state_timestamp")}
    return found.withColumns(times).select(*VERDICT_RECORDS.fieldNames())


def verdict_commits(group_records: DataFrame) -> DataFrame:
    """The commits, without those that deleted an offset."""
    commits = offset_commits(group_records).where(~F.col("is_tombstone"))
    return commits.withColumn("at_ms", F.unix_millis("timestamp")).select(*VERDICT_COMMITS.fieldNames())


def events_of_groups(events: DataFrame) -> DataFrame:
    """Records of the events topic with the name of their group; a record that is no event is left out."""
    value = F.col("value").cast("string")
    named = events.select("partition", "offset", F.get_json_object(value, "$.group").alias("group"), value.alias("event"))
    return named.where(F.col("group").isNotNull())


def verdicts(rows: DataFrame) -> DataFrame:
    """One row per rebalance, and per rebalance that static membership avoided."""
    return apply_by_group(rows, judge_rows, VERDICTS, *ORDER)


def incidents(found: DataFrame) -> DataFrame:
    """One row per incident. It may be of several groups, so one task reads all verdicts, in the order of their times."""
    times = {"started_ms": F.unix_millis("started_at"), "ended_ms": F.unix_millis("ended_at")}
    in_order = (
        found.withColumns(times).drop("started_at", "ended_at").repartition(1).sortWithinPartitions("started_ms", "group", "generation")
    )
    return in_order.mapInArrow(incident_batches, INCIDENTS)


def overview(found: DataFrame) -> DataFrame:
    """A few text columns in the order in which the rebalances began, for a terminal."""
    counts = (F.coalesce(F.col(f"members_{when}").cast("string"), F.lit("?")) for when in ("before", "after"))
    arrow = F.concat_ws("→", *counts)
    others = F.size("candidates") - 1
    cause = F.when(others > 0, F.concat("cause", F.lit(" +"), others.cast("string"))).otherwise(F.col("cause"))
    return found.orderBy("started_at", "group", "generation").select(
        "group",
        F.date_format("started_at", "MM-dd HH:mm:ss").alias("started"),
        F.col("generation").alias("gen"),
        cause.alias("cause"),
        "confidence",
        arrow.alias("members"),
        F.coalesce("who.instance_id", "who.client_id").alias("client"),
    )


PIPELINE = Pipeline(
    inputs={"group_records": GROUP_RECORDS, "group_events_if_any": KAFKA},
    outputs={"verdicts": VERDICTS, "incidents": INCIDENTS},
    appended={"verdict_records": VERDICT_RECORDS, "verdict_commits": VERDICT_COMMITS},
    steps=(
        PipelineStep(verdict_records, ("group_records",), "verdict_records"),
        PipelineStep(verdict_commits, ("group_records",), "verdict_commits"),
        PipelineStep(commit_spans, ("verdict_records", "verdict_commits"), "commit_spans"),
        PipelineStep(events_of_groups, ("group_events_if_any",), "events_of_groups"),
        PipelineStep(in_order, ("verdict_records", "commit_spans", "events_of_groups"), "rows_in_order"),
        PipelineStep(verdicts, ("rows_in_order",), "verdicts"),
        PipelineStep(incidents, ("verdicts",), "incidents"),
    ),
    reused=("verdicts",),
    overview=overview,
    time="started_at",
    shows_latest=True,
)
