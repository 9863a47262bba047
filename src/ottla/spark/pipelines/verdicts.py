"""Group records, and group events where there are any, to verdicts: why each rebalance happened, its cost, what would have avoided it.

The decisions are those of ottla.history.verdicts, as in `ottla diagnose`, run once per group; Spark summarises the commits. It never
opens a source.
"""

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.groups.log.records import CONSUMER_GROUP_TYPES
from ottla.spark.by_group import apply_by_group
from ottla.spark.group_records import COMMIT_RECORDS, columns, offset_commits
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import KAFKA, VERDICT_COMMITS, VERDICT_RECORDS, VERDICTS
from ottla.spark.verdicts.evidence_rows import judge_rows
from ottla.spark.verdicts.spans import ORDER, commit_spans, in_order

GROUP_RECORDS: Final = columns(
    *("partition", "offset", "timestamp", "record_type", "is_known", "is_tombstone", "group"),
    *("generation", "protocol", "leader", "state_timestamp", "members", "record"),
    *COMMIT_RECORDS.fieldNames(),
)


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
    outputs={"verdicts": VERDICTS},
    appended={"verdict_records": VERDICT_RECORDS, "verdict_commits": VERDICT_COMMITS},
    steps=(
        PipelineStep(verdict_records, ("group_records",), "verdict_records"),
        PipelineStep(verdict_commits, ("group_records",), "verdict_commits"),
        PipelineStep(commit_spans, ("verdict_records", "verdict_commits"), "commit_spans"),
        PipelineStep(events_of_groups, ("group_events_if_any",), "events_of_groups"),
        PipelineStep(in_order, ("verdict_records", "commit_spans", "events_of_groups"), "rows_in_order"),
        PipelineStep(verdicts, ("rows_in_order",), "verdicts"),
    ),
    overview=overview,
    time="started_at",
    shows_latest=True,
)
