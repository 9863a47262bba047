"""The records of `__consumer_offsets` and `__transaction_state`: every type that Apache Kafka 4.3 has, with its fields.

Types that Ottla does not write are included (share and streams groups, transactions, old versions), since dumps and tables show them, too.
Names are Kafka's; times end in `_ms`. Sources: KIP-98, KIP-345, KIP-848, KIP-890, KIP-932, KIP-939, KIP-1071, and the schemas of Apache
Kafka, with which a test compares these.
"""

from collections.abc import Mapping
from contextlib import suppress
from typing import Annotated, Any, Final, NamedTuple

from ottla.protocol.errors import PeerError
from ottla.protocol.record_codec import (
    NO_ID,
    DecodedRecord,
    Int8,
    Int16,
    Int32,
    Int64,
    JsonValue,
    RecordType,
    Schema,
    UInt16,
    UnknownRecord,
    Uuid,
    Wire,
    decode_record,
    record_class,
    record_json,
)
from ottla.protocol.wire.consumer_protocol import ASSIGNMENT, CONSUMER_PROTOCOL_TYPE, SUBSCRIPTION
from ottla.protocol.wire.primitives import Reader


@record_class
class OffsetKey:
    """Types 0 and 1: one group's offset in one partition."""

    group_id: Annotated[str, Wire(name="group")]
    topic: str
    partition: Int32


@record_class
class ClassicGroupKey:
    """Type 2: a group of the classic protocol."""

    group_id: Annotated[str, Wire(name="group")]


@record_class
class GroupKey:
    """The key of types that exist once a group."""

    group_id: str


@record_class
class MemberKey:
    """The key of types that exist once a member."""

    group_id: str
    member_id: str


@record_class
class RegularExpressionKey:
    """Type 16: an expression that members of a group subscribe to."""

    group_id: str
    regular_expression: str


class OffsetValue(NamedTuple):
    """A committed offset (types 0 and 1). `expire_timestamp_ms` is None unless the commit set its own expiry (version 1).

    A tuple, since a broker may hold millions of them.
    """

    offset: Int64
    leader_epoch: Annotated[Int32, Wire(since=3, absent=-1)]
    metadata: str
    commit_timestamp_ms: Annotated[Int64, Wire(name="commitTimestamp")]
    expire_timestamp_ms: Annotated[Int64 | None, Wire(since=1, until=1, null=-1, name="expireTimestamp")] = None
    topic_id: Annotated[Uuid, Wire(since=4, tag=0)] = NO_ID


@record_class
class MemberValue:
    """One member inside a classic group's record; its subscription and assignment are bytes of the group's own protocol.

    Version 0 had no rebalance timeout (-1): the session timeout served as both.
    """

    member_id: str
    instance_id: Annotated[str | None, Wire(since=3, name="groupInstanceId")] = None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Annotated[Int32, Wire(since=1, name="rebalanceTimeout")] = -1
    session_timeout_ms: Annotated[Int32, Wire(name="sessionTimeout")]
    subscription: bytes
    assignment: bytes


@record_class
class GroupMetadataValue:
    """A classic group at one generation (type 2)."""

    protocol_type: str
    generation: Int32
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: Annotated[Int64, Wire(since=2, name="currentStateTimestamp")] = -1
    members: tuple[MemberValue, ...]


@record_class
class ConsumerGroupMetadataValue:
    """The epoch of a KIP-848 group (type 3); the hash is that of the topics that it subscribes to, 0 before 4.1."""

    epoch: Int32
    metadata_hash: Annotated[Int64, Wire(tag=0)] = 0


@record_class
class PartitionRacks:
    """The racks of one partition's replicas."""

    partition: Int32
    racks: tuple[str, ...]


@record_class
class TopicMetadata:
    """A topic that a group subscribes to."""

    topic_id: Uuid
    topic_name: str
    num_partitions: Int32
    partition_metadata: tuple[PartitionRacks, ...]


@record_class
class ConsumerGroupPartitionMetadataValue:
    """The subscribed topics, as brokers before 4.1 wrote them (type 4)."""

    topics: tuple[TopicMetadata, ...]


@record_class
class ClassicProtocol:
    """An assignor with which a member of the classic protocol joined, and its subscription."""

    name: str
    metadata: bytes


@record_class
class ClassicMemberMetadata:
    """What only members of the classic protocol have, in a group of the new one."""

    session_timeout_ms: Int32 = 0
    supported_protocols: tuple[ClassicProtocol, ...] = ()


@record_class
class ConsumerGroupMemberMetadataValue:
    """A member of a KIP-848 group (type 5)."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str | None
    rebalance_timeout_ms: Int32
    server_assignor: str | None
    classic_member_metadata: Annotated[ClassicMemberMetadata | None, Wire(tag=0)] = ClassicMemberMetadata()


@record_class
class TargetAssignmentMetadataValue:
    """The epoch of a group's target assignment, and when it was computed, 0 if unknown (types 6, 12 and 20)."""

    assignment_epoch: Int32
    assignment_timestamp_ms: Annotated[Int64, Wire(tag=0, name="assignmentTimestamp")] = 0


@record_class
class TopicPartitions:
    """Partitions of one topic."""

    topic_id: Uuid
    partitions: tuple[Int32, ...]


@record_class
class TargetAssignmentMemberValue:
    """The target assignment of one member (types 7 and 13)."""

    topic_partitions: tuple[TopicPartitions, ...]


@record_class
class AssignedTopicPartitions:
    """Partitions of one topic that a member has, and the epochs in which it got them."""

    topic_id: Uuid
    partitions: tuple[Int32, ...]
    assignment_epochs: Annotated[tuple[Int32, ...] | None, Wire(tag=0)] = ()


@record_class
class ConsumerGroupCurrentMemberAssignmentValue:
    """A member on its way to its target (type 8)."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[AssignedTopicPartitions, ...]
    partitions_pending_revocation: tuple[AssignedTopicPartitions, ...]


@record_class
class ShareGroupMemberMetadataValue:
    """A member of a share group (type 10)."""

    rack_id: str | None
    client_id: str
    client_host: str
    subscribed_topic_names: tuple[str, ...]


@record_class
class ShareGroupMetadataValue:
    """The epoch of a share group (type 11)."""

    epoch: Int32
    metadata_hash: Int64


@record_class
class ShareGroupCurrentMemberAssignmentValue:
    """A member of a share group and its partitions (type 14)."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    assigned_partitions: tuple[TopicPartitions, ...]


@record_class
class ShareTopicPartitions:
    """Partitions of one topic, with its name."""

    topic_id: Uuid
    topic_name: str
    partitions: tuple[Int32, ...]


@record_class
class ShareTopic:
    """A topic, with its name."""

    topic_id: Uuid
    topic_name: str


@record_class
class ShareGroupStatePartitionMetadataValue:
    """The topics of a share group whose state exists, or is being made or deleted (type 15)."""

    initializing_topics: tuple[ShareTopicPartitions, ...]
    initialized_topics: tuple[ShareTopicPartitions, ...]
    deleting_topics: tuple[ShareTopic, ...]


@record_class
class ConsumerGroupRegularExpressionValue:
    """The topics that a regular expression matches (type 16)."""

    topics: tuple[str, ...]
    version: Int64
    timestamp_ms: Annotated[Int64, Wire(name="timestamp")]


@record_class
class KeyValue:
    """A name and its value."""

    key: str
    value: str


@record_class
class StreamsGroupMetadataValue:
    """The epoch of a streams group (type 17)."""

    epoch: Int32
    metadata_hash: Int64
    validated_topology_epoch: Annotated[Int32, Wire(tag=0)] = -1
    last_assignment_configs: Annotated[tuple[KeyValue, ...] | None, Wire(tag=1)] = ()


@record_class
class QueryEndpoint:
    """Where a member answers queries of others."""

    host: str
    port: UInt16


@record_class
class StreamsGroupMemberMetadataValue:
    """A member of a streams group (type 19)."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: Int32
    topology_epoch: Int32
    process_id: str
    user_endpoint: QueryEndpoint | None
    client_tags: tuple[KeyValue, ...]


@record_class
class TaskIds:
    """Tasks of one subtopology."""

    subtopology_id: str
    partitions: tuple[Int32, ...]


@record_class
class StreamsGroupTargetAssignmentMemberValue:
    """The target assignment of one member of a streams group (type 21)."""

    active_tasks: tuple[TaskIds, ...]
    standby_tasks: tuple[TaskIds, ...]
    warmup_tasks: tuple[TaskIds, ...]


@record_class
class AssignedTaskIds:
    """Tasks of one subtopology that a member has, and the epochs in which it got them."""

    subtopology_id: str
    partitions: tuple[Int32, ...]
    assignment_epochs: Annotated[tuple[Int32, ...] | None, Wire(tag=0)] = ()


@record_class
class StreamsGroupCurrentMemberAssignmentValue:
    """A member of a streams group on its way to its target (type 22)."""

    member_epoch: Int32
    previous_member_epoch: Int32
    state: Int8
    active_tasks: tuple[AssignedTaskIds, ...]
    standby_tasks: tuple[AssignedTaskIds, ...]
    warmup_tasks: tuple[AssignedTaskIds, ...]
    active_tasks_pending_revocation: tuple[AssignedTaskIds, ...]
    standby_tasks_pending_revocation: tuple[AssignedTaskIds, ...]
    warmup_tasks_pending_revocation: tuple[AssignedTaskIds, ...]


@record_class
class InternalTopic:
    """A topic that a streams application creates."""

    name: str
    partitions: Int32
    replication_factor: Int16
    topic_configs: tuple[KeyValue, ...]


@record_class
class CopartitionGroup:
    """Topics that must have the same number of partitions, by their places in a subtopology's lists."""

    source_topics: tuple[Int16, ...]
    source_topic_regex: tuple[Int16, ...]
    repartition_source_topics: tuple[Int16, ...]


@record_class
class Subtopology:
    """A part of a streams application that is assigned as a whole."""

    subtopology_id: str
    source_topics: tuple[str, ...]
    source_topic_regex: tuple[str, ...]
    state_changelog_topics: tuple[InternalTopic, ...]
    repartition_sink_topics: tuple[str, ...]
    repartition_source_topics: tuple[InternalTopic, ...]
    copartition_groups: tuple[CopartitionGroup, ...]


@record_class
class StreamsGroupTopologyValue:
    """The topology of a streams group (type 23)."""

    epoch: Int32
    subtopologies: tuple[Subtopology, ...]


def _flexible(record: type) -> "Schema[object]":
    return Schema(record, flexible_since=0)


OFFSET_COMMIT, GROUP_METADATA = 1, 2
OFFSET_VALUE: Final = Schema(OffsetValue, version_max=4, flexible_since=4)
_OFFSET_KEY, _GROUP, _MEMBER = Schema(OffsetKey), Schema(GroupKey), Schema(MemberKey)
_TARGET_METADATA, _TARGET_MEMBER = _flexible(TargetAssignmentMetadataValue), _flexible(TargetAssignmentMemberValue)
OFFSETS_TOPIC_TYPES: Final[Mapping[int, RecordType]] = {
    0: RecordType("LegacyOffsetCommit", _OFFSET_KEY, OFFSET_VALUE),
    OFFSET_COMMIT: RecordType("OffsetCommit", _OFFSET_KEY, OFFSET_VALUE),
    GROUP_METADATA: RecordType("GroupMetadata", Schema(ClassicGroupKey), Schema(GroupMetadataValue, version_max=4, flexible_since=4)),
    3: RecordType("ConsumerGroupMetadata", _GROUP, _flexible(ConsumerGroupMetadataValue)),
    4: RecordType("ConsumerGroupPartitionMetadata", _GROUP, _flexible(ConsumerGroupPartitionMetadataValue)),
    5: RecordType("ConsumerGroupMemberMetadata", _MEMBER, _flexible(ConsumerGroupMemberMetadataValue)),
    6: RecordType("ConsumerGroupTargetAssignmentMetadata", _GROUP, _TARGET_METADATA),
    7: RecordType("ConsumerGroupTargetAssignmentMember", _MEMBER, _TARGET_MEMBER),
    8: RecordType("ConsumerGroupCurrentMemberAssignment", _MEMBER, _flexible(ConsumerGroupCurrentMemberAssignmentValue)),
    10: RecordType("ShareGroupMemberMetadata", _MEMBER, _flexible(ShareGroupMemberMetadataValue)),
    11: RecordType("ShareGroupMetadata", _GROUP, _flexible(ShareGroupMetadataValue)),
    12: RecordType("ShareGroupTargetAssignmentMetadata", _GROUP, _TARGET_METADATA),
    13: RecordType("ShareGroupTargetAssignmentMember", _MEMBER, _TARGET_MEMBER),
    14: RecordType("ShareGroupCurrentMemberAssignment", _MEMBER, _flexible(ShareGroupCurrentMemberAssignmentValue)),
    15: RecordType("ShareGroupStatePartitionMetadata", _GROUP, _flexible(ShareGroupStatePartitionMetadataValue)),
    16: RecordType("ConsumerGroupRegularExpression", Schema(RegularExpressionKey), _flexible(ConsumerGroupRegularExpressionValue)),
    17: RecordType("StreamsGroupMetadata", _GROUP, _flexible(StreamsGroupMetadataValue)),
    19: RecordType("StreamsGroupMemberMetadata", _MEMBER, _flexible(StreamsGroupMemberMetadataValue)),
    20: RecordType("StreamsGroupTargetAssignmentMetadata", _GROUP, _TARGET_METADATA),
    21: RecordType("StreamsGroupTargetAssignmentMember", _MEMBER, _flexible(StreamsGroupTargetAssignmentMemberValue)),
    22: RecordType("StreamsGroupCurrentMemberAssignment", _MEMBER, _flexible(StreamsGroupCurrentMemberAssignmentValue)),
    23: RecordType("StreamsGroupTopology", _GROUP, _flexible(StreamsGroupTopologyValue)),
}


@record_class
class TransactionKey:
    """A transactional id."""

    transactional_id: str


@record_class
class TransactionPartitions:
    """Partitions of one topic in a transaction."""

    topic: str
    partition_ids: tuple[Int32, ...]


@record_class
class TransactionValue:
    """The producer and the state of one transactional id."""

    producer_id: Int64
    previous_producer_id: Annotated[Int64, Wire(since=1, tag=0)] = -1
    next_producer_id: Annotated[Int64, Wire(since=1, tag=1)] = -1
    producer_epoch: Int16
    next_producer_epoch: Annotated[Int16, Wire(since=1, tag=3)] = -1
    transaction_timeout_ms: Int32
    transaction_status: Int8
    transaction_partitions: tuple[TransactionPartitions, ...] | None
    transaction_last_update_timestamp_ms: Int64
    transaction_start_timestamp_ms: Int64
    client_transaction_version: Annotated[Int16, Wire(since=1, tag=2)] = 0


TRANSACTION_TOPIC_TYPES: Final[Mapping[int, RecordType]] = {
    0: RecordType("TransactionLog", Schema(TransactionKey), Schema(TransactionValue, version_max=1, flexible_since=1)),
}


def decode_offsets_record(key: bytes | None, value: bytes | None) -> DecodedRecord | UnknownRecord:
    """A record of `__consumer_offsets`; PeerError for bytes that are none."""
    return decode_record(OFFSETS_TOPIC_TYPES, key, value)


def offsets_record_json(record: DecodedRecord) -> dict[str, Any]:
    """A record of `__consumer_offsets` as Kafka's dump prints it, with what consumers embed in it; bytes of other protocols stay base64."""
    shown = record_json(OFFSETS_TOPIC_TYPES, record)
    if isinstance(record.value, GroupMetadataValue) and record.value.protocol_type == CONSUMER_PROTOCOL_TYPE:
        data = shown["value"]["data"]
        data["members"] = [_with_embedded(member, text) for member, text in zip(record.value.members, data["members"], strict=True)]
    return shown


def _with_embedded(member: MemberValue, shown: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    embedded: dict[str, JsonValue] = {}
    embedded_types: list[tuple[str, bytes, Schema[Any]]] = [
        ("subscription", member.subscription, SUBSCRIPTION),
        ("assignment", member.assignment, ASSIGNMENT),
    ]
    for name, data, schema in embedded_types:
        with suppress(PeerError):
            reader = Reader(data)
            version = reader.int16()
            embedded[name] = schema.to_json(schema.decode(reader, version), version)
    return {**shown, **embedded}
