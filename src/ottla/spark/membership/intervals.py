"""States of members to intervals: how long each member was in its group, and how long it owned each partition.

An interval is [from, to): `to` is when the record was stored that does not have it any more, null while it lasts.
"""

from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from ottla.spark.membership.states import CLASSIC
from ottla.spark.schemas import MEMBERS, OWNERSHIP

_MEMBER: Final = ("group", "group_type", "member_id")
_ATTRIBUTES: Final = (
    *("group_instance_id", "client_id", "client_host", "session_timeout", "rebalance_timeout"),
    *("assignor", "subscribed_topics", "subscribed_regex"),
)


def members(classic: DataFrame, consumer: DataFrame) -> DataFrame:
    """One row per member id, with what was last known of it, as the table `members`."""
    states = classic.unionByName(consumer, allowMissingColumns=True)
    latest = {name: F.max_by(name, F.when(F.col(name).isNotNull(), F.col("offset"))).alias(name) for name in _ATTRIBUTES}
    found = states.groupBy(*_MEMBER).agg(
        *latest.values(),
        F.min("generation").alias("first_generation"),
        F.max("generation").alias("last_generation"),
        F.min("at").alias("joined_at"),
        F.max("at").alias("last_seen_at"),
        F.max_by("until", "offset").alias("left_at"),
    )
    return found.select(*(F.col(field.name).cast(field.dataType).alias(field.name) for field in MEMBERS.fields))


def topic_names(commits: DataFrame) -> DataFrame:
    """Topic ids and their names, by the commits that have both."""
    named = commits.where(F.col("topic_id").isNotNull() & F.col("topic").isNotNull())
    return named.groupBy("topic_id").agg(F.max_by("topic", "offset").alias("name"))


def ownership(classic: DataFrame, consumer: DataFrame, names: DataFrame, members: DataFrame) -> DataFrame:
    """One row per partition, member and interval, as the table `ownership`."""
    # Of KIP-848 members only the records of assignments count: the others do not say what a member has.
    assignments = consumer.where(F.col("partitions").isNotNull()).withColumn("until", F.col("until_of_kind"))
    states = classic.unionByName(assignments, allowMissingColumns=True)
    held = states.select(*_MEMBER, "at", "until", "number", "generation", F.explode("partitions").alias("held")).select("*", "held.*")
    named = held.join(F.broadcast(names), "topic_id", "left").withColumn("topic", F.coalesce("topic", "name"))
    key = [*_MEMBER, "topic", "topic_id", "partition"]
    in_order = Window.partitionBy(*key).orderBy("number")
    is_new = F.coalesce(F.col("number") - F.lag("number").over(in_order) > 1, F.lit(True)).cast("int")
    islands = named.withColumn("is_new", is_new).withColumn("island", F.sum("is_new").over(in_order))
    intervals = islands.groupBy(*key, "island").agg(
        F.min("at").alias("from_at"),
        F.max_by("until", "number").alias("to_at"),
        F.min("generation").alias("first_generation"),
        F.max("generation").alias("last_generation"),
    )
    owners = members.select(*_MEMBER, "group_instance_id", "client_id", "client_host")
    return intervals.join(owners, [*_MEMBER]).select(*OWNERSHIP.fieldNames())


def last_commits(commits: DataFrame, ownership: DataFrame) -> DataFrame:
    """The commits that each classic member made of its partitions: the first, the last, and at how many times."""
    owners = ownership.where(F.col("group_type") == CLASSIC).select(
        "group", "topic", "partition", F.col("from_at").alias("at"), F.struct("member_id", "to_at").alias("owner")
    )
    made = commits.select("group", "topic", "partition", F.col("committed_at").alias("at"), F.lit(True).alias("is_commit"))
    in_order = Window.partitionBy("group", "topic", "partition").orderBy("at", F.col("is_commit").isNotNull())
    so_far = in_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    timeline = made.unionByName(owners, allowMissingColumns=True)
    owned = timeline.withColumn("owner", F.last("owner", ignorenulls=True).over(so_far)).where(F.col("is_commit").isNotNull())
    during = owned.where(F.col("owner.to_at").isNull() | (F.col("at") <= F.col("owner.to_at")))
    return during.groupBy("group", "owner.member_id").agg(
        F.min("at").alias("first_commit"), F.max("at").alias("last_commit"), F.count_distinct("at").alias("commit_times")
    )
