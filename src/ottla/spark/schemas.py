"""Schemas of all tables: Kafka records, group events, group records, and the outputs of pipelines.

Names and types only. Times are UTC; names end in their units.
"""

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DoubleType,
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
"""The columns of Spark's own Kafka source. timestampType: 0 CreateTime, 1 LogAppendTime."""

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
    group_type=StringType(),
)
"""The JSON value of a record in GROUP_EVENTS_TOPIC: ottla.protocol.model.GroupEvent."""

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
"""One row per rebalance, and per second half of a cooperative one; ottla.history.group_history.Rebalance explains the columns."""


_TEXTS: Final = ArrayType(StringType())
_PLACE: Final = {"partition": IntegerType(), "offset": LongType(), "timestamp": TimestampType()}
"""The position of a record in the offsets topic; the timestamp is the broker's, at the append."""

GROUP_MEMBER: Final = _columns(
    member_id=StringType(),
    group_instance_id=StringType(),
    client_id=StringType(),
    client_host=StringType(),
    rebalance_timeout=IntegerType(),
    session_timeout=IntegerType(),
    subscribed_topics=_TEXTS,
    owned_partitions=MapType(StringType(), ArrayType(IntegerType())),
    assignment=MapType(StringType(), ArrayType(IntegerType())),
)
"""A member in a classic group's record. Timeouts in ms; subscription and assignment are null where they are not a consumer's."""

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
"""One row per record of the offsets topic, decoded by the source (`decode=group_records`); missing fields are null.

record_type: the version in the key (0, 1 offset commit; 2 group metadata; 3 and more: KIP-848, share and streams groups, in `record` as
JSON); is_known: whether its type and its value's version are supported. ottla.groups.log.arrow has the same columns as Arrow types.
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
"""One row per commit, and one per tombstone (an offset was deleted or expired), where committed_offset to topic_id are null."""

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
"""How many records of each kind were read, supported or not. A stream adds rows with each micro-batch: sum them up."""

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
"""One row per record of a classic group: its state at one generation, and the changes since the one before. See docs/pipelines.md."""

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
"""One row per record that carries an epoch (KIP-848, share and streams groups): the group's, its target assignment's, a member's."""

END_OFFSETS: Final = _columns(
    topic=StringType(),
    partition=IntegerType(),
    start_offset=LongType(),
    end_offset=LongType(),
    measured_at=TimestampType(),
)
"""Start (null: not read) and end (the offset of the next record) of a partition at a time; any number of rows per partition."""

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
    next_record_age_ms=LongType(),
    next_record_age_quality=StringType(),
    freshness_ms=LongType(),
    freshness_quality=StringType(),
    consumed_per_s=DoubleType(),
    produced_per_s=DoubleType(),
    drain_ms=LongType(),
    drain_quality=StringType(),
)
"""The lag of each group in each partition by the latest commits and end offsets; lag in messages (offsets), never below 0.

The lags in time and their qualities: ottla.history.time_lag.
"""

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

COMMITTED: Final = _columns(
    group=StringType(),
    topic=StringType(),
    partition=IntegerType(),
    offset=LongType(),
    is_tombstone=BooleanType(),
    committed_offset=LongType(),
    committed_at=TimestampType(),
)
"""What a group's status needs of each commit; `partition` is the topic's, `offset` the record's in the offsets topic (for the order)."""

_STATUS_COMMIT: Final = _columns(offset=LongType(), at=TimestampType(), lag=LongType())

PARTITION_STATUS: Final = _columns(
    topic=StringType(),
    partition=IntegerType(),
    status=StringType(),
    current_lag=LongType(),
    complete=DoubleType(),
    start=_STATUS_COMMIT,
    end=_STATUS_COMMIT,
)

GROUP_STATUS: Final = _columns(
    group=StringType(),
    status=StringType(),
    complete=DoubleType(),
    total_lag=LongType(),
    partition_count=IntegerType(),
    maxlag=PARTITION_STATUS,
    partitions=ArrayType(PARTITION_STATUS),
    evaluated_at=TimestampType(),
)
"""Burrow's status of each group, with that of its partitions; ottla.history.burrow explains the columns."""

MEMBER_COMMITS: Final = _columns(
    group=StringType(),
    topic=StringType(),
    topic_id=StringType(),
    partition=IntegerType(),
    offset=LongType(),
    committed_at=TimestampType(),
)
"""When a group committed a partition; `offset` is the record's in the offsets topic."""

MEMBERS: Final = _columns(
    group=StringType(),
    group_type=StringType(),
    member_id=StringType(),
    group_instance_id=StringType(),
    client_id=StringType(),
    client_host=StringType(),
    session_timeout=IntegerType(),
    rebalance_timeout=IntegerType(),
    assignor=StringType(),
    subscribed_topics=_TEXTS,
    subscribed_regex=StringType(),
    first_generation=IntegerType(),
    last_generation=IntegerType(),
    joined_at=TimestampType(),
    last_seen_at=TimestampType(),
    left_at=TimestampType(),
)
"""One row per member id, from its first record to the record without it. Timeouts in ms. See docs/pipelines.md."""

OWNERSHIP: Final = _columns(
    group=StringType(),
    group_type=StringType(),
    topic=StringType(),
    topic_id=StringType(),
    partition=IntegerType(),
    member_id=StringType(),
    group_instance_id=StringType(),
    client_id=StringType(),
    client_host=StringType(),
    first_generation=IntegerType(),
    last_generation=IntegerType(),
    from_at=TimestampType(),
    to_at=TimestampType(),
)
"""One row per partition, member and interval [from_at, to_at) in which the member owned the partition."""

MEMBER_CHURN: Final = _columns(
    group=StringType(),
    group_instance_id=StringType(),
    client_id=StringType(),
    client_host=StringType(),
    hour=TimestampType(),
    joins=LongType(),
    leaves=LongType(),
    returns=LongType(),
    expiries=LongType(),
    shortest_stay_ms=LongType(),
    shortest_absence_ms=LongType(),
    flapping_score=IntegerType(),
)
"""One row per client and hour in which it joined or left."""

VERDICT_RECORDS: Final = _columns(
    partition=IntegerType(),
    offset=LongType(),
    at_ms=LongType(),
    group=StringType(),
    record_type=IntegerType(),
    is_tombstone=BooleanType(),
    generation=IntegerType(),
    protocol=StringType(),
    leader=StringType(),
    state_ms=LongType(),
    members=ArrayType(GROUP_MEMBER),
    record=StringType(),
)
"""The records of groups themselves, as verdicts need them; times are ms since 1970."""

VERDICT_COMMITS: Final = _columns(
    partition=IntegerType(),
    offset=LongType(),
    at_ms=LongType(),
    group=StringType(),
    topic=StringType(),
    topic_id=StringType(),
    topic_partition=IntegerType(),
    committed_offset=LongType(),
)
"""Commits, as verdicts need them."""

VERDICTS: Final = _columns(
    group=StringType(),
    generation=IntegerType(),
    generations=ArrayType(IntegerType()),
    started_at=TimestampType(),
    ended_at=TimestampType(),
    kind=StringType(),
    outcome=StringType(),
    cause=StringType(),
    candidates=_TEXTS,
    confidence=StringType(),
    planned=BooleanType(),
    avoidable=BooleanType(),
    **{"class": IntegerType()},
    members_before=IntegerType(),
    members_after=IntegerType(),
    who=_columns(member_id=StringType(), instance_id=StringType(), client_id=StringType(), client_host=StringType()),
    contributing=_TEXTS,
    evidence=MapType(StringType(), LongType()),
    cost=_columns(
        stopped_partitions=LongType(),
        stopped_partition_seconds=DoubleType(),
        moved_partitions=LongType(),
        waiting_messages=LongType(),
        reread_messages=LongType(),
    ),
    advice=ArrayType(_columns(setting=StringType(), value=StringType(), sentence=StringType(), warning=StringType())),
    sharper=StringType(),
    sources=_TEXTS,
    rules=_TEXTS,
    clock=StringType(),
    slowest=_columns(name=StringType(), member_id=StringType(), revocation_ms=LongType(), reconciliation_ms=LongType()),
)
"""One row per rebalance, or per rebalance that was avoided; ottla.history.verdicts.verdict.Verdict explains the columns."""

INCIDENTS: Final = _columns(
    incident=StringType(),
    groups=_TEXTS,
    culprits=_TEXTS,
    started_at=TimestampType(),
    ended_at=TimestampType(),
    rebalances=IntegerType(),
    stopped_partition_seconds=DoubleType(),
    planned=BooleanType(),
    confidence=StringType(),
    advice=_columns(setting=StringType(), value=StringType(), sentence=StringType(), warning=StringType()),
    sentence=StringType(),
    verdicts=ArrayType(_columns(group=StringType(), generation=IntegerType(), started_at=TimestampType())),
)
"""One row per incident: rebalances of any groups that belong together; ottla.history.incidents.Incident explains the columns."""

MEMBER_PROGRESS: Final = _columns(
    query=StringType(),
    batch_id=LongType(),
    timestamp=StringType(),
    input_rows=LongType(),
    trigger_ms=LongType(),
    group=StringType(),
    member_id=StringType(),
    generation=IntegerType(),
    owned=MapType(StringType(), ArrayType(IntegerType())),
    rebalances=IntegerType(),
    rebalance_ms=LongType(),
    stopped_ms=LongType(),
    commits=IntegerType(),
    failures=IntegerType(),
    last_error=StringType(),
)
"""The membership of a streaming query, a row for each trigger: see `ottla.spark.group.listeners`."""
