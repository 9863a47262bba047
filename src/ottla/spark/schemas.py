"""The tables that Spark sees here, with their types written out: what comes from Kafka, group events, and what the pipelines make of them.

Only names and types; how a table is read or computed is said elsewhere. Times are UTC; units are last in the names.
"""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

GROUP_EVENTS_TOPIC: Final = "__ottla_group_events"

KAFKA: Final = StructType(
    [
        StructField("key", BinaryType()),
        StructField("value", BinaryType()),
        StructField("topic", StringType()),
        StructField("partition", IntegerType()),
        StructField("offset", LongType()),
        StructField("timestamp", TimestampType()),
        StructField("timestampType", IntegerType()),
    ]
)
"""Spark's own Kafka source has these columns. timestampType: 0 CreateTime, 1 LogAppendTime."""

HEADERS: Final = StructField("headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])))
"""With includeHeaders; null for a record without headers."""

KAFKA_WITH_HEADERS: Final = StructType([*KAFKA.fields, HEADERS])

EVENT_MEMBER: Final = StructType(
    [
        StructField("member_id", StringType()),
        StructField("instance_id", StringType()),
        StructField("client_id", StringType()),
        StructField("client_host", StringType()),
        StructField("session_timeout_ms", IntegerType()),
        StructField("rebalance_timeout_ms", IntegerType()),
        StructField("assignment", MapType(StringType(), ArrayType(IntegerType()))),
    ]
)

GROUP_EVENT: Final = StructType(
    [
        StructField("at_ms", LongType()),
        StructField("group", StringType()),
        StructField("kind", StringType()),
        StructField("generation", IntegerType()),
        StructField("state_from", StringType()),
        StructField("state_to", StringType()),
        StructField("trigger", StringType()),
        StructField("coalesced", BooleanType()),
        StructField("reason", StringType()),
        StructField("member_id", StringType()),
        StructField("instance_id", StringType()),
        StructField("client_id", StringType()),
        StructField("client_host", StringType()),
        StructField("client_reason", StringType()),
        StructField("protocol", StringType()),
        StructField("leader", StringType()),
        StructField("members", ArrayType(EVENT_MEMBER)),
        StructField("evidence", MapType(StringType(), LongType())),
    ]
)
"""The JSON value of a record in GROUP_EVENTS_TOPIC: ottla.core.model.GroupEvent."""

GROUP_EVENTS: Final = StructType([StructField("partition", IntegerType()), StructField("offset", LongType()), *GROUP_EVENT.fields])
"""Group events with their place in the topic, which gives their order."""

REBALANCES: Final = StructType(
    [
        StructField("group", StringType()),
        StructField("generation", IntegerType()),
        StructField("started_at", TimestampType()),
        StructField("join_ms", LongType()),
        StructField("sync_ms", LongType()),
        StructField("outcome", StringType()),
        StructField("trigger", StringType()),
        StructField("reason", StringType()),
        StructField("client_id", StringType()),
        StructField("coalesced", ArrayType(StringType())),
        StructField("members_before", IntegerType()),
        StructField("members_after", IntegerType()),
        StructField("joined", ArrayType(StringType())),
        StructField("left", ArrayType(StringType())),
        StructField("partitions_assigned", IntegerType()),
        StructField("partitions_moved", IntegerType()),
        StructField("partitions_new", IntegerType()),
        StructField("planned", BooleanType()),
        StructField("confidence", StringType()),
    ]
)
"""One row a rebalance; ottla.core.diagnosis.rebalances.Rebalance says what each column means (there the start is in ms)."""
