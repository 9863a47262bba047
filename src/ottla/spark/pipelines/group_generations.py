"""Group records to one row per generation of a classic group, with the changes since the record before, and to epochs of newer groups.

The offsets topic has a record for every generation that synced, for a group that became empty, and for a static member that was replaced,
but none for the trigger of a rebalance. So this pipeline has no causes; `rebalances` has them, from events that only Ottla's broker
publishes. It never opens a source.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ottla.spark.group_records import GROUP_METADATA_TYPE, columns
from ottla.spark.pipelines import Pipeline, PipelineStep
from ottla.spark.schemas import GROUP_EPOCHS, GROUP_GENERATIONS

_RECORD: Final = (
    *("partition", "offset", "timestamp", "group", "is_tombstone", "value_version"),
    *("protocol_type", "generation", "protocol", "leader", "state_timestamp", "members"),
)
GROUP_METADATA: Final = columns(*_RECORD)
GROUP_RECORDS: Final = columns(*_RECORD, "record_type", "is_known", "record")

EPOCH_FIELDS: Final = {
    **dict.fromkeys((3, 11, 17), "epoch"),
    **dict.fromkeys((6, 12, 20), "assignmentEpoch"),
    **dict.fromkeys((8, 14, 22), "memberEpoch"),
}
"""Record types of consumer, share and streams groups that carry an epoch (of the group, its target assignment, a member), and its name."""

FIRST, DELETED, EMPTIED, UNCHANGED = "FIRST", "DELETED", "EMPTIED", "UNCHANGED"
JOINED, LEFT, REPLACED = "MEMBERS_JOINED", "MEMBERS_LEFT", "STATIC_MEMBER_REPLACED"
PROTOCOL, SUBSCRIPTION, GROWN, MOVED = "PROTOCOL_CHANGED", "SUBSCRIPTION_CHANGED", "PARTITIONS_ADDED", "PARTITIONS_MOVED"

_GROUP: Final = ("partition", "group")
_PARTITION: Final = "struct<topic: string, partition: int, owner: string>"


def group_metadata(group_records: DataFrame) -> DataFrame:
    """The records of classic groups, tombstones among them."""
    return group_records.where((F.col("record_type") == GROUP_METADATA_TYPE) & F.col("is_known")).select(*GROUP_METADATA.fieldNames())


def group_epochs(group_records: DataFrame) -> DataFrame:
    """The records that carry an epoch, tombstones among them."""
    found = group_records.where(F.col("record_type").isin(*EPOCH_FIELDS) & F.col("is_known"))
    epoch = F.coalesce(*(_in_record(f"value.data.{name}") for name in dict.fromkeys(EPOCH_FIELDS.values())))
    values = {
        "member_id": _in_record("key.data.memberId"),
        "epoch": epoch,
        "previous_epoch": _in_record("value.data.previousMemberEpoch"),
        "state": _in_record("value.data.state"),
        "metadata_hash": _in_record("value.data.metadataHash"),
    }
    return found.select(
        *(values.get(field.name, F.col(field.name)).cast(field.dataType).alias(field.name) for field in GROUP_EPOCHS.fields)
    )


def compare_assignments(metadata: DataFrame) -> DataFrame:
    """For each record with members: assigned partitions, those whose last known owner was another, those never assigned before."""
    owned = metadata.select(*_GROUP, "offset", F.explode(_owned()).alias("now")).select(*_GROUP, "offset", "now.*")
    before = Window.partitionBy("source", "group", "topic", "partition").orderBy("offset")
    compared = owned.toDF("source", "group", "offset", "topic", "partition", "owner").withColumn("before", F.lag("owner").over(before))
    return (
        compared.groupBy("source", "group", "offset")
        .agg(
            F.count("*").cast("int").alias("assigned"),
            F.count_if(F.col("before") != F.col("owner")).cast("int").alias("moved"),
            F.count_if(F.col("before").isNull()).cast("int").alias("new"),
        )
        .withColumnRenamed("source", "partition")
    )


def group_generations(metadata: DataFrame, changes: DataFrame) -> DataFrame:
    """Each record beside the one before it, as the table `group_generations`."""
    in_order = Window.partitionBy(*_GROUP).orderBy("offset")
    earlier = in_order.rowsBetween(Window.unboundedPreceding, -1)
    state = F.struct("is_tombstone", "generation", "protocol", _names().alias("names"), _replaceable(), _subscriptions())
    compared = metadata.join(changes, [*_GROUP, "offset"], "left").select(
        "*",
        _names().alias("names"),
        _replaceable(),
        _subscriptions(),
        F.lag(state).over(in_order).alias("last"),
        F.coalesce(F.max("assigned").over(earlier) > 0, F.lit(False)).alias("had_assignment"),
    )
    # A deleted group starts from the beginning.
    compared = compared.withColumn("last", F.when(~F.col("last.is_tombstone"), F.col("last")))
    joined, left = F.array_except("names", "last.names"), F.array_except("last.names", "names")
    replaced = F.array_except("instances", "last.instances")
    compared = compared.select(
        "*",
        F.sort_array(joined).alias("joined"),
        F.sort_array(left).alias("left"),
        F.sort_array(
            F.array_intersect(F.transform(replaced, lambda each: each["name"]), F.transform("last.instances", lambda each: each["name"]))
        ).alias("replaced"),
    )
    has_synced = F.size("members") > 0
    steps = F.col("generation") - F.col("last.generation")
    is_new_generation = F.col("last").isNull() | (steps != 0)
    values = {
        # A static member that is replaced keeps its group's generation, and the time since which it is stable.
        "sync_ms": F.when(has_synced & is_new_generation, F.unix_millis("timestamp") - F.unix_millis("state_timestamp")),
        "changes": _changes(),
        "generations_skipped": F.when(steps.isNotNull(), F.greatest(steps - 1, F.lit(0))),
        **{f"partitions_{what}": F.when(~F.col("is_tombstone"), F.coalesce(what, F.lit(0))) for what in ("assigned", "moved", "new")},
    }
    return compared.select(
        *(values.get(field.name, F.col(field.name)).cast(field.dataType).alias(field.name) for field in GROUP_GENERATIONS.fields)
    )


def _changes() -> Column:
    """The codes of what differs, in a fixed order; exactly one for a first record, a tombstone, and where nothing differs."""
    # Members who were there before and are there now; what they subscribe to.
    stayed = F.filter("subscriptions", lambda each: F.array_contains("last.names", each["name"]))
    found = {
        EMPTIED: (F.size("names") == 0) & (F.size("last.names") > 0),
        JOINED: F.size("joined") > 0,
        LEFT: F.size("left") > 0,
        REPLACED: F.size("replaced") > 0,
        PROTOCOL: F.col("protocol") != F.col("last.protocol"),
        SUBSCRIPTION: F.size(F.array_except(stayed, "last.subscriptions")) > 0,
        GROWN: F.col("had_assignment") & (F.col("new") > 0),
        MOVED: F.col("moved") > 0,
    }
    codes = F.array_compact(F.array(*(F.when(is_so, F.lit(code)) for code, is_so in found.items())))
    return (
        F.when(F.col("is_tombstone"), F.array(F.lit(DELETED)))
        .when(F.col("last").isNull(), F.array(F.lit(FIRST)))
        .when(F.size(codes) == 0, F.array(F.lit(UNCHANGED)))
        .otherwise(codes)
    )


def _name(member: Column) -> Column:
    """A member's identity across generations: its instance id if it is static."""
    return F.coalesce(member["group_instance_id"], member["member_id"])


def _names() -> Column:
    return F.transform("members", _name)


def _replaceable() -> Column:
    statics = F.filter("members", lambda member: member["group_instance_id"].isNotNull())
    named = F.transform(statics, lambda member: F.struct(member["group_instance_id"].alias("name"), member["member_id"].alias("member_id")))
    return named.alias("instances")


def _subscriptions() -> Column:
    """Each member's topics; a member whose subscription is no consumer's has none."""
    return F.transform(
        "members", lambda member: F.struct(_name(member).alias("name"), F.array_sort(member["subscribed_topics"]).alias("topics"))
    ).alias("subscriptions")


def _owned() -> Column:
    """Every partition of a record's assignment with its owner."""

    def of_topic(member: Column, entry: Column) -> Column:
        return F.transform(
            entry["value"],
            lambda partition: F.struct(entry["key"].alias("topic"), partition.alias("partition"), _name(member).alias("owner")),
        )

    def of_member(member: Column) -> Column:
        entries = F.map_entries(member["assignment"])
        none = F.array().cast(f"array<{_PARTITION}>")
        return F.coalesce(F.flatten(F.transform(entries, lambda entry: of_topic(member, entry))), none)

    return F.flatten(F.transform("members", of_member))


def _in_record(path: str) -> Column:
    return F.get_json_object("record", f"$.{path}")


def overview(generations: DataFrame) -> DataFrame:
    """A few text columns in the order of time, for a terminal."""
    moved = F.concat(F.col("partitions_moved").cast("string"), F.lit("/"), F.col("partitions_assigned").cast("string"))
    return generations.orderBy("timestamp", "partition", "offset").select(
        "group",
        F.date_format("timestamp", "MM-dd HH:mm:ss").alias("written"),
        F.col("generation").alias("gen"),
        F.size("members").alias("members"),
        "joined",
        "left",
        moved.alias("moved"),
    )


PIPELINE = Pipeline(
    inputs={"group_records": GROUP_RECORDS},
    outputs={"group_generations": GROUP_GENERATIONS, "group_epochs": GROUP_EPOCHS},
    appended={"group_metadata": GROUP_METADATA, "group_epochs": GROUP_EPOCHS},
    steps=(
        PipelineStep(group_metadata, ("group_records",), "group_metadata"),
        PipelineStep(group_epochs, ("group_records",), "group_epochs"),
        PipelineStep(compare_assignments, ("group_metadata",), "assignment_changes"),
        PipelineStep(group_generations, ("group_metadata", "assignment_changes"), "group_generations"),
    ),
    overview=overview,
    time="timestamp",
    shows_latest=True,
)
