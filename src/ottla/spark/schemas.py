"""The tables that Spark sees here, with their types written out: what comes from Kafka, group events, group records, and what the pipelines
make of them.

Only names and types; how a table is read or computed is said elsewhere. Times are UTC; units are last in the names.
"""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

GROUP_EVENTS_TOPIC: Final = "__ottla_group_events"
OFFSETS_TOPIC: Final = "__consumer_offsets"


def _columns(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


KAFKA: Final = _columns(
    key=BinaryType(),
    value=BinaryType(),
    topic=StringType(),
    partition=IntegerType(),
    offset=LongType(),
    timestamp=TimestampType(),
    timestampType=IntegerType(),
)
"""Spark's own Kafka source has these columns. timestampType: 0 CreateTime, 1 LogAppendTime."""

HEADERS: Final = StructField("headers", ArrayType(StructType([StructField("key", StringType()), StructField("value", BinaryType())])))
"""With includeHeaders; null for a record without headers."""

KAFKA_WITH_HEADERS: Final = StructType([*KAFKA.fields, HEADERS])

EVENT_MEMBER: Final = _columns(
    member_id=StringType(),
    instance_id=StringType(),
    client_id=StringType(),
    client_host=StringType(),
    session_timeout_ms=IntegerType(),
    rebalance_timeout_ms=IntegerType(),
    assignment=MapType(StringType(), ArrayType(IntegerType())),
)

GROUP_EVENT: Final = _columns(
    at_ms=LongType(),
    group=StringType(),
    kind=StringType(),
    generation=IntegerType(),
    state_from=StringType(),
    state_to=StringType(),
    trigger=StringType(),
    coalesced=BooleanType(),
    reason=StringType(),
    member_id=StringType(),
    instance_id=StringType(),
    client_id=StringType(),
    client_host=StringType(),
    client_reason=StringType(),
    protocol=StringType(),
    leader=StringType(),
    members=ArrayType(EVENT_MEMBER),
    evidence=MapType(StringType(), LongType()),
)
"""The JSON value of a record in GROUP_EVENTS_TOPIC: ottla.core.model.GroupEvent."""

GROUP_EVENTS: Final = StructType([StructField("partition", IntegerType()), StructField("offset", LongType()), *GROUP_EVENT.fields])
"""Group events with their place in the topic, which gives their order."""

REBALANCES: Final = _columns(
    group=StringType(),
    generation=IntegerType(),
    started_at=TimestampType(),
    join_ms=LongType(),
    sync_ms=LongType(),
    outcome=StringType(),
    trigger=StringType(),
    reason=StringType(),
    client_id=StringType(),
    coalesced=ArrayType(StringType()),
    members_before=IntegerType(),
    members_after=IntegerType(),
    joined=ArrayType(StringType()),
    left=ArrayType(StringType()),
    partitions_assigned=IntegerType(),
    partitions_moved=IntegerType(),
    partitions_new=IntegerType(),
    planned=BooleanType(),
    confidence=StringType(),
)
"""One row a rebalance; ottla.core.diagnosis.rebalances.Rebalance says what each column means (there the start is in ms)."""


_TEXTS: Final = ArrayType(StringType())
_PLACE: Final = {"partition": IntegerType(), "offset": LongType(), "timestamp": TimestampType()}
"""Of a record in the offsets topic; the timestamp is the broker's, when it wrote the record."""

GROUP_MEMBER: Final = _columns(
    member_id=StringType(),
    group_instance_id=StringType(),
    client_id=StringType(),
    client_host=StringType(),
    rebalance_timeout=IntegerType(),
    session_timeout=IntegerType(),
    subscribed_topics=_TEXTS,
    assignment=MapType(StringType(), ArrayType(IntegerType())),
)
"""A member in a classic group's record. Timeouts in ms; what a client embedded is null where it is not what a consumer sends."""

GROUP_RECORDS: Final = _columns(
    **_PLACE,
    record_type=IntegerType(),
    is_known=BooleanType(),
    is_tombstone=BooleanType(),
    group=StringType(),
    topic=StringType(),
    topic_partition=IntegerType(),
    committed_offset=LongType(),
    leader_epoch=IntegerType(),
    metadata=StringType(),
    commit_timestamp=TimestampType(),
    expire_timestamp=TimestampType(),
    topic_id=StringType(),
    value_version=IntegerType(),
    protocol_type=StringType(),
    generation=IntegerType(),
    protocol=StringType(),
    leader=StringType(),
    state_timestamp=TimestampType(),
    members=ArrayType(GROUP_MEMBER),
    record=StringType(),
)
"""One row a record of the offsets topic, decoded by the source (`decode=group_records`); what a record does not have is null.

record_type: the version in the key (0, 1 offset commit; 2 group metadata; 3 and more: KIP-848, share and streams groups, in `record` as
JSON); is_known: its type and the version of its value are known here. ottla.columnar.group_records has the same columns as Arrow types.
"""

OFFSET_COMMITS: Final = _columns(
    **_PLACE,
    group=StringType(),
    topic=StringType(),
    topic_partition=IntegerType(),
    is_tombstone=BooleanType(),
    committed_offset=LongType(),
    leader_epoch=IntegerType(),
    metadata=StringType(),
    commit_timestamp=TimestampType(),
    expire_timestamp=TimestampType(),
    topic_id=StringType(),
    record_type=IntegerType(),
    value_version=IntegerType(),
)
"""One row a commit, and one a tombstone (an offset was deleted, or expired), where committed_offset to topic_id are null."""

GROUP_RECORD_COUNTS: Final = _columns(
    partition=IntegerType(),
    record_type=IntegerType(),
    value_version=IntegerType(),
    is_known=BooleanType(),
    is_tombstone=BooleanType(),
    records=LongType(),
    first_offset=LongType(),
    last_offset=LongType(),
)
"""How many records of each kind were read, known or not; a stream adds rows with each micro-batch: sum them up."""

GROUP_GENERATIONS: Final = _columns(
    **_PLACE,
    group=StringType(),
    is_tombstone=BooleanType(),
    generation=IntegerType(),
    protocol_type=StringType(),
    protocol=StringType(),
    leader=StringType(),
    state_timestamp=TimestampType(),
    sync_ms=LongType(),
    changes=_TEXTS,
    generations_skipped=IntegerType(),
    joined=_TEXTS,
    left=_TEXTS,
    replaced=_TEXTS,
    partitions_assigned=IntegerType(),
    partitions_moved=IntegerType(),
    partitions_new=IntegerType(),
    members=ArrayType(GROUP_MEMBER),
    value_version=IntegerType(),
)
"""One row a record of a classic group: its state at one generation, and what differs from the one before. docs/pipelines.md says more."""

GROUP_EPOCHS: Final = _columns(
    **_PLACE,
    group=StringType(),
    record_type=IntegerType(),
    is_tombstone=BooleanType(),
    member_id=StringType(),
    epoch=IntegerType(),
    previous_epoch=IntegerType(),
    state=IntegerType(),
    metadata_hash=LongType(),
)
"""One row a record that carries an epoch (KIP-848, share and streams groups): the group's, its target assignment's, a member's."""

END_OFFSETS: Final = _columns(
    topic=StringType(),
    partition=IntegerType(),
    start_offset=LongType(),
    end_offset=LongType(),
    measured_at=TimestampType(),
)
"""Where a topic's partition began (null: not asked) and ended (the offset of its next record) at a time; any number of rows a partition."""

LAG: Final = _columns(
    group=StringType(),
    topic=StringType(),
    partition=IntegerType(),
    committed_offset=LongType(),
    start_offset=LongType(),
    end_offset=LongType(),
    lag=LongType(),
    is_beyond_end=BooleanType(),
    is_before_start=BooleanType(),
    committed_at=TimestampType(),
    measured_at=TimestampType(),
)
"""The lag of each group in each partition by the latest commits and end offsets; lag in messages (offsets), never below 0."""

LAG_HISTORY: Final = _columns(
    group=StringType(),
    topic=StringType(),
    partition=IntegerType(),
    at=TimestampType(),
    event=StringType(),
    committed_offset=LongType(),
    end_offset=LongType(),
    lag=LongType(),
    is_beyond_end=BooleanType(),
)
"""The lag at each commit (`event` "commit") and at each measured end offset ("end"), null before the first of the other kind."""
