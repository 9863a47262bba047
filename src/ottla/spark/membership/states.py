"""Group records to states: at each record the members of a classic group, or one member of a KIP-848 group, each with its partitions.

A state holds until `until`: the group's next record (classic), or the member's (KIP-848); null if there is none yet. `number` counts those
records, so that a gap in the numbers of a member's states shows where it was not there. No row is dropped because a field is missing.
"""

from typing import Final

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from ottla.spark.group_records import GROUP_METADATA_TYPE

CLASSIC, CONSUMER = "classic", "consumer"
MEMBER_METADATA_TYPE: Final = 5
CURRENT_ASSIGNMENT_TYPE: Final = 8
MEMBER_RECORD_TYPES: Final = (GROUP_METADATA_TYPE, MEMBER_METADATA_TYPE, CURRENT_ASSIGNMENT_TYPE)

_PARTITIONS: Final = "array<struct<topic: string, topic_id: string, partition: int>>"
_IDS: Final = "array<struct<topicId: string, partitions: array<int>>>"
_METADATA: Final = """instanceId string, clientId string, clientHost string, rebalanceTimeoutMs int, serverAssignor string,
    subscribedTopicNames array<string>, subscribedTopicRegex string, classicMemberMetadata struct<sessionTimeoutMs: int>"""
_ASSIGNMENT: Final = f"memberEpoch int, assignedPartitions {_IDS}, partitionsPendingRevocation {_IDS}"
_RECORD: Final = "struct<key: struct<data: struct<memberId: string>>, value: struct<data: struct<{fields}>>>"


def classic_states(records: DataFrame) -> DataFrame:
    """A row per member and record of a classic group, with what the record says of it."""
    in_order = Window.partitionBy("partition", "group").orderBy("offset")
    numbered = records.where(F.col("record_type") == GROUP_METADATA_TYPE).select(
        "group",
        "offset",
        "generation",
        "protocol",
        F.col("timestamp").alias("at"),
        F.lead("timestamp").over(in_order).alias("until"),
        F.row_number().over(in_order).alias("number"),
        "members",
    )
    # Not in the same select as the windows: those would be over the members.
    return numbered.withColumn("member", F.explode("members")).select(
        "group",
        F.lit(CLASSIC).alias("group_type"),
        "member.member_id",
        "offset",
        "at",
        "until",
        "number",
        "generation",
        F.col("member.group_instance_id").alias("group_instance_id"),
        F.col("member.client_id").alias("client_id"),
        F.col("member.client_host").alias("client_host"),
        F.col("member.session_timeout").alias("session_timeout"),
        F.col("member.rebalance_timeout").alias("rebalance_timeout"),
        F.col("protocol").alias("assignor"),
        F.col("member.subscribed_topics").alias("subscribed_topics"),
        F.lit(None).cast("string").alias("subscribed_regex"),
        _by_name(F.col("member.assignment")).alias("partitions"),
    )


def consumer_states(records: DataFrame) -> DataFrame:
    """A row per record of a KIP-848 member while it is in the group; `partitions` is null where the record does not say."""
    of_members = records.where(F.col("record_type").isin(MEMBER_METADATA_TYPE, CURRENT_ASSIGNMENT_TYPE))
    has_metadata = F.col("record_type") == MEMBER_METADATA_TYPE
    parsed = of_members.select(
        "*",
        F.from_json("record", _RECORD.format(fields=_METADATA))["key"]["data"]["memberId"].alias("member_id"),
        F.when(has_metadata, F.from_json("record", _RECORD.format(fields=_METADATA))["value"]["data"]).alias("metadata"),
        F.when(~has_metadata, F.from_json("record", _RECORD.format(fields=_ASSIGNMENT))["value"]["data"]).alias("assignment"),
    )
    in_order = Window.partitionBy("partition", "group", "member_id").orderBy("offset")
    of_kind = Window.partitionBy("partition", "group", "member_id", "record_type").orderBy("offset")
    # Of a static member that left for a while the epoch is -2: it is not in the group until it has another one.
    is_there = ~F.col("is_tombstone") & (has_metadata | (F.col("assignment.memberEpoch") >= 0))
    held = F.concat(*(_by_id(F.col(f"assignment.{name}")) for name in ("assignedPartitions", "partitionsPendingRevocation")))
    states = parsed.select(
        "group",
        F.lit(CONSUMER).alias("group_type"),
        "member_id",
        "offset",
        F.col("timestamp").alias("at"),
        F.lead("timestamp").over(of_kind).alias("until_of_kind"),
        F.lead("timestamp").over(in_order).alias("until"),
        F.row_number().over(of_kind).alias("number"),
        F.when(F.col("assignment.memberEpoch") > 0, F.col("assignment.memberEpoch")).alias("generation"),
        *(F.col(f"metadata.{field}").alias(name) for field, name in _FIELDS.items()),
        F.when(~has_metadata, held).alias("partitions"),
        is_there.alias("is_there"),
    )
    return states.where("is_there").drop("is_there")


_FIELDS: Final = {
    "instanceId": "group_instance_id",
    "clientId": "client_id",
    "clientHost": "client_host",
    "classicMemberMetadata.sessionTimeoutMs": "session_timeout",
    "rebalanceTimeoutMs": "rebalance_timeout",
    "serverAssignor": "assignor",
    "subscribedTopicNames": "subscribed_topics",
    "subscribedTopicRegex": "subscribed_regex",
}


def _by_name(assignment: Column) -> Column:
    """Partitions of a classic member, by the topic's name; empty where its assignment is not a consumer's."""
    return _flat(F.map_entries(assignment), "key", "value", "topic")


def _by_id(topics: Column) -> Column:
    return _flat(topics, "topicId", "partitions", "topic_id")


def _flat(topics: Column, key: str, numbers: str, name: str) -> Column:
    def of_topic(entry: Column) -> Column:
        none = F.lit(None).cast("string")
        topic, topic_id = (entry[key], none) if name == "topic" else (none, entry[key])
        return F.transform(
            entry[numbers], lambda number: F.struct(topic.alias("topic"), topic_id.alias("topic_id"), number.alias("partition"))
        )

    return F.coalesce(F.flatten(F.transform(topics, of_topic)), F.array().cast(_PARTITIONS)).cast(_PARTITIONS)
