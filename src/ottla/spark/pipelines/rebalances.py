"""Group events to one row a rebalance, for any number of groups and any length of history.

The same rounds, the same tables of causes and the same judgement as ottla.core.diagnosis, which says what each column means; here they are
windows over the events of a group, in the order of their offsets. It never opens a source.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ottla.core.diagnosis.causes import CONFIDENCES, GROWS, HIGH, JOIN, LEAVE, LOST, LOW, RETURN_WITHIN_MS, RETURNED, SAID, VERDICTS
from ottla.core.diagnosis.rebalances import (
    EMPTIED,
    INTERRUPTS,
    JOINED,
    MEMBERSHIP,
    PHASES,
    PLANS,
    STARTS_UNLESS_AFTER,
    SYNCED,
    TRIGGER,
)
from ottla.spark.pipelines import Pipeline, Step
from ottla.spark.schemas import GROUP_EVENT, GROUP_EVENTS, KAFKA, REBALANCES

ROUND = ["group", "round"]


def parse_group_events(records: DataFrame) -> DataFrame:
    """Records of the events topic to events with their offset; a record that is no event is left out."""
    event = F.from_json(F.col("value").cast("string"), GROUP_EVENT)
    return (
        records.select("partition", "offset", event.alias("event"))
        .select("partition", "offset", "event.*")
        .where(F.col("kind").isNotNull() & F.col("group").isNotNull())
    )


def number_rounds(events: DataFrame) -> DataFrame:
    """Each event of a round with the round's number in its group (0: before the first), its members' names, and a verdict on triggers."""
    in_order = Window.partitionBy("group").orderBy("offset")
    phases = events.where(F.col("kind").isin(*PHASES))
    after = _lookup(STARTS_UNLESS_AFTER, F.col("kind"))
    starts = after.isNotNull() & ~F.lag("kind").over(in_order).eqNullSafe(after)
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    names = F.transform(F.coalesce("members", F.array()), lambda member: F.coalesce(member["instance_id"], member["member_id"]))
    return phases.select(
        "*",
        F.sum(starts.cast("int")).over(so_far).alias("round"),
        F.array_distinct(names).alias("names"),
        _verdict().alias("verdict"),
    )


def _verdict() -> Column:
    """planned and confidence of a trigger; a client (id and host) that was lost and joins again was planned neither way."""
    of_client = Window.partitionBy("group", "client_id", "client_host").orderBy("offset")
    before = of_client.rowsBetween(Window.unboundedPreceding, -1)
    later = of_client.rowsBetween(1, Window.unboundedFollowing)
    lost_ms = F.max(F.when(_is_trigger(*LOST), F.col("at_ms"))).over(before)
    joined_ms = F.min(F.when(_is_trigger(JOIN), F.col("at_ms"))).over(later)
    came_back = _is_trigger(JOIN) & (F.col("at_ms") - lost_ms <= RETURN_WITHIN_MS)
    will_be_back = _is_trigger(LEAVE) & (joined_ms - F.col("at_ms") <= RETURN_WITHIN_MS)
    returned = F.col("client_id").isNotNull() & (came_back | will_be_back)
    said = _is_trigger(LEAVE) & (F.length("client_reason") > 0)
    planned = _lookup({code: verdict.planned for code, verdict in VERDICTS.items()}, F.col("trigger"))
    confidence = _lookup({code: verdict.confidence for code, verdict in VERDICTS.items()}, F.col("trigger"))
    return F.struct(
        F.when(returned, RETURNED.planned).when(said, SAID.planned).otherwise(planned).alias("planned"),
        F.when(returned, RETURNED.confidence).when(said, SAID.confidence).otherwise(F.coalesce(confidence, F.lit(LOW))).alias("confidence"),
    )


def compare_plans(events: DataFrame) -> DataFrame:
    """For each round that synced: partitions in its plan, those whose last known owner was another, those that had none."""
    plans = events.where(F.col("kind").isin(*PLANS))
    members = plans.select(*ROUND, "offset", "kind", "members", F.posexplode("members").alias("position", "member"))
    namesakes = F.filter(
        "members",
        lambda other: (
            other["client_id"].eqNullSafe(F.col("member.client_id")) & other["client_host"].eqNullSafe(F.col("member.client_host"))
        ),
    )
    owner = F.struct(
        "member.member_id", "member.instance_id", "member.client_id", "member.client_host", (F.size(namesakes) == 1).alias("is_alone")
    )
    topics = members.select(
        *ROUND, "offset", "kind", "position", owner.alias("now"), F.explode("member.assignment").alias("topic", "partitions")
    )
    owned = topics.withColumn("partition", F.explode("partitions"))
    of_partition = Window.partitionBy("group", "topic", "partition").orderBy("offset", "position")
    compared = owned.withColumn("before", F.lag("now").over(of_partition)).where(F.col("kind") == SYNCED)
    is_new = F.col("before").isNull()
    return compared.groupBy(*ROUND).agg(
        F.count("*").alias("assigned"),
        F.count_if(~is_new & ~_is_same_owner()).alias("moved"),
        F.count_if(is_new).alias("new"),
    )


def _is_same_owner() -> Column:
    before, now = F.col("before"), F.col("now")
    is_static = before["instance_id"].isNotNull() | now["instance_id"].isNotNull()
    same_instance = before["instance_id"].eqNullSafe(now["instance_id"])
    same_client = before["client_id"].eqNullSafe(now["client_id"]) & before["client_host"].eqNullSafe(now["client_host"])
    is_clear = before["is_alone"] & now["is_alone"]
    return (before["member_id"] == now["member_id"]) | F.when(is_static, same_instance).otherwise(is_clear & same_client)


def gather_rounds(events: DataFrame) -> DataFrame:
    """One row a round: its triggers, when it formed and synced, who was in it, who was there before, and how it ended."""
    of_round = events.groupBy(*ROUND).agg(
        F.min_by(F.struct("at_ms", "state_from"), "offset").alias("start"),
        _first(F.struct("at_ms", "trigger", "reason", "client_id"), TRIGGER).alias("first"),
        *(_first(F.struct("at_ms", "generation", "names"), kind).alias(kind) for kind in (JOINED, SYNCED, EMPTIED)),
        F.max_by("names", F.when(F.col("kind").isin(*MEMBERSHIP), F.col("offset"))).alias("known"),
        F.sort_array(
            F.collect_list(
                F.when(F.col("kind") == TRIGGER, F.struct("offset", F.coalesce("trigger", F.lit("")).alias("code"), "verdict.*"))
            )
        ).alias("triggers"),
        F.collect_set("kind").alias("kinds"),
    )
    of_group = Window.partitionBy("group").orderBy("round")
    earlier = of_group.rowsBetween(Window.unboundedPreceding, -1)
    known_before = F.last("known", ignorenulls=True).over(earlier)
    was_empty = F.when(F.col("start.state_from") == "Empty", F.array().cast("array<string>"))
    formed = F.coalesce(JOINED, EMPTIED)
    return of_round.select(
        "*",
        F.coalesce(known_before, was_empty).alias("before"),
        F.max(_has(*PLANS)).over(earlier).alias("had_plan"),
        formed.alias("formed"),
        F.coalesce(F.col(SYNCED), formed).alias("ended"),
        F.when(_has(SYNCED), "completed")
        .when(_has(EMPTIED), "emptied")
        .when(_has(*INTERRUPTS), "interrupted")
        .when(F.lead("round").over(of_group).isNull(), "open")
        .otherwise("superseded")
        .alias("outcome"),
    ).where(F.col("round") > 0)


def describe_rebalances(rounds: DataFrame, plans: DataFrame) -> DataFrame:
    """Rounds and what their plans moved, as the table `rebalances`."""
    joined = rounds.join(plans, ROUND, "left")
    has_synced = F.col(SYNCED).isNotNull()
    planned, confidence = _judge_round(has_synced & F.col("had_plan") & (F.coalesce("new", F.lit(0)) > 0))
    columns = {
        "generation": F.col("ended.generation"),
        "started_at": F.timestamp_millis("start.at_ms"),
        "join_ms": F.col("formed.at_ms") - F.col("first.at_ms"),
        "sync_ms": F.col(f"{SYNCED}.at_ms") - F.col(f"{JOINED}.at_ms"),
        "trigger": F.col("first.trigger"),
        "reason": F.col("first.reason"),
        "client_id": F.col("first.client_id"),
        "coalesced": F.transform(F.slice("triggers", 2, F.greatest(F.size("triggers"), F.lit(1))), lambda trigger: trigger["code"]),
        "members_before": F.when(F.col("before").isNotNull(), F.size("before")),
        "members_after": F.when(F.col("ended").isNotNull(), F.size("ended.names")),
        "joined": F.sort_array(F.array_except("ended.names", "before")),
        "left": F.sort_array(F.array_except("before", "ended.names")),
        **{f"partitions_{what}": F.when(has_synced, F.coalesce(what, F.lit(0))) for what in ("assigned", "moved", "new")},
        "planned": planned,
        "confidence": confidence,
    }
    return joined.select(
        *(columns.get(field.name, F.col(field.name)).cast(field.dataType).alias(field.name) for field in REBALANCES.fields)
    )


def _judge_round(has_new_partitions: Column) -> tuple[Column, Column]:
    """planned and confidence from `triggers`: one that was not planned decides, then one that cannot be judged."""
    grown = F.struct(F.lit(True).alias("planned"), F.lit(HIGH).alias("confidence"))
    verdicts = F.transform(
        "triggers",
        lambda trigger: F.when(has_new_partitions & trigger["code"].isin(*GROWS), grown).otherwise(
            F.struct(trigger["planned"].alias("planned"), trigger["confidence"].alias("confidence"))
        ),
    )
    unplanned = F.filter(verdicts, lambda verdict: verdict["planned"] == F.lit(False))
    is_unplanned = F.size(unplanned) > 0
    is_unknown = (F.size(verdicts) == 0) | F.exists(verdicts, lambda verdict: verdict["planned"].isNull())
    level = (
        F.when(is_unplanned, F.array_max(F.transform(unplanned, lambda verdict: verdict["confidence"])))
        .when(is_unknown, LOW)
        .otherwise(F.array_min(F.transform(verdicts, lambda verdict: verdict["confidence"])))
    )
    planned = F.when(is_unplanned, False).when(is_unknown, F.lit(None).cast("boolean")).otherwise(True)
    return planned, F.element_at(F.array(*map(F.lit, CONFIDENCES)), level + 1)


def overview(rebalances: DataFrame) -> DataFrame:
    """A few text columns in the order in which the rebalances began, for a terminal."""
    arrow = F.concat(
        F.coalesce(F.col("members_before").cast("string"), F.lit("?")),
        F.lit("→"),
        F.coalesce(F.col("members_after").cast("string"), F.lit("?")),
    )
    codes = F.concat_ws(" +", "trigger", "coalesced")
    moved = F.concat(F.col("partitions_moved").cast("string"), F.lit("/"), F.col("partitions_assigned").cast("string"))
    planned = F.concat(
        F.when(F.col("planned"), "yes").when(~F.col("planned"), "no").otherwise("?"), F.lit(" ("), F.col("confidence"), F.lit(")")
    )
    return rebalances.orderBy("started_at", "generation").select(
        "group",
        F.date_format("started_at", "HH:mm:ss.SSS").alias("started"),
        F.col("generation").alias("gen"),
        "outcome",
        F.when(codes != "", codes).alias("triggers"),
        F.col("client_id").alias("client"),
        arrow.alias("members"),
        moved.alias("moved"),
        F.col("partitions_new").alias("new"),
        F.col("join_ms").alias("join ms"),
        F.col("sync_ms").alias("sync ms"),
        planned.alias("planned"),
    )


def _first(column: Column, kind: str) -> Column:
    return F.min_by(column, F.when(F.col("kind") == kind, F.col("offset")))


def _has(*kinds: str) -> Column:
    return F.arrays_overlap("kinds", F.array(*map(F.lit, kinds)))


def _is_trigger(*codes: str) -> Column:
    return (F.col("kind") == TRIGGER) & F.col("trigger").isin(*codes)


def _lookup(table: Mapping[str, object], key: Column) -> Column:
    """The value of `key` in a table of constants, null where it has none."""
    return F.create_map(*(F.lit(part) for pair in table.items() for part in pair))[key]


PIPELINE = Pipeline(
    inputs={"group_event_records": KAFKA},
    outputs={"rebalances": REBALANCES},
    appended={"group_events": GROUP_EVENTS},
    steps=(
        Step(parse_group_events, ("group_event_records",), "group_events"),
        Step(number_rounds, ("group_events",), "round_events"),
        Step(compare_plans, ("round_events",), "plans"),
        Step(gather_rounds, ("round_events",), "rounds"),
        Step(describe_rebalances, ("rounds", "plans"), "rebalances"),
    ),
    overview=overview,
)
