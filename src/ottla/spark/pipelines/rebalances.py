"""Group events to one row per rebalance, for any number of groups and any length of history.

The rebalances, causes and verdicts are those of ottla.history, which explains the columns, run once per group on its events in the
order of their offsets. It never opens a source.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ottla.groups.events import EventMember, GroupEvent
from ottla.history.group_history import Rebalance, histories_of_events
from ottla.history.sources.group_events import KINDS
from ottla.spark.group_records import apply_by_group
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import GROUP_EVENT, GROUP_EVENTS, KAFKA, REBALANCES


def parse_group_events(records: DataFrame) -> DataFrame:
    """Records of the events topic to events with their offset; a record that is no event is left out."""
    event = F.from_json(F.col("value").cast("string"), GROUP_EVENT)
    parsed = records.select("partition", "offset", event.alias("event")).select("partition", "offset", "event.*")
    return parsed.where(F.col("kind").isNotNull() & F.col("group").isNotNull() & F.col("at_ms").isNotNull())


def rebalances(events: DataFrame) -> DataFrame:
    """One row per rebalance of each group."""
    return apply_by_group(events.where(F.col("kind").isin(*KINDS)), rebalance_rows, REBALANCES, "offset")


def rebalance_rows(group: str, events: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The rebalances of one group as rows; in a Python worker."""
    return [rebalance_row(rebalance) for rebalance in histories_of_events(map(event_of_row, events))[group].generations()]


def rebalance_row(rebalance: Rebalance) -> dict[str, Any]:
    """A rebalance as a row of the table, for Arrow: times in microseconds."""
    first = rebalance.triggers[0] if rebalance.triggers else None
    return {
        "group": rebalance.group,
        "generation": None if rebalance.formed_ms is None else rebalance.generation,
        "started_at": rebalance.started_ms * 1000,
        "join_ms": rebalance.join_ms,
        "sync_ms": rebalance.sync_ms,
        "outcome": rebalance.outcome,
        "trigger": rebalance.trigger,
        "reason": first and first.reason,
        "client_id": first and first.client_id,
        "coalesced": list(rebalance.coalesced),
        "members_before": rebalance.members_before,
        "members_after": rebalance.members_after,
        "joined": rebalance.joined,
        "left": rebalance.left,
        "partitions_assigned": rebalance.partitions_assigned,
        "partitions_moved": rebalance.partitions_moved,
        "partitions_new": rebalance.partitions_new,
        "planned": rebalance.verdict.planned,
        "confidence": rebalance.verdict.confidence.name.lower(),
    }


def event_of_row(row: Mapping[str, Any]) -> GroupEvent:
    """The event of a row; maps are lists of pairs, as Arrow gives them."""
    members = (EventMember(**{**member, "assignment": dict(member["assignment"] or ())}) for member in row["members"] or ())
    fields = {name: value for name, value in row.items() if name not in ("partition", "offset")}
    given = {"members": tuple(members), "evidence": dict(row["evidence"] or ()), "group_type": row.get("group_type") or "classic"}
    return GroupEvent(**{**fields, **given})


def overview(found: DataFrame) -> DataFrame:
    """A few text columns in the order in which the rebalances began, for a terminal."""
    arrow = F.concat(
        F.coalesce(F.col("members_before").cast("string"), F.lit("?")),
        F.lit("→"),
        F.coalesce(F.col("members_after").cast("string"), F.lit("?")),
    )
    codes = F.concat_ws(" +", "trigger", "coalesced")
    moved = F.concat(F.col("partitions_moved").cast("string"), F.lit("/"), F.col("partitions_assigned").cast("string"))
    return found.orderBy("started_at", "generation").select(
        "group",
        F.date_format("started_at", "MM-dd HH:mm:ss").alias("started"),
        F.col("generation").alias("gen"),
        F.when(codes != "", codes).alias("triggers"),
        F.col("client_id").alias("client"),
        arrow.alias("members"),
        moved.alias("moved"),
        F.when(F.col("planned"), "yes").when(~F.col("planned"), "no").otherwise("?").alias("planned"),
    )


PIPELINE = Pipeline(
    inputs={"group_event_records": KAFKA},
    outputs={"rebalances": REBALANCES},
    appended={"group_events": GROUP_EVENTS},
    steps=(
        PipelineStep(parse_group_events, ("group_event_records",), "group_events"),
        PipelineStep(rebalances, ("group_events",), "rebalances"),
    ),
    overview=overview,
    time="started_at",
    shows_latest=True,
)
