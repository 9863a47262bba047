"""The schema of every record type of the offsets topic, and the decoding of records for a dump.

Types that Ottla does not write are included (share and streams groups, old versions), since a dump shows them, too. Sources: KIP-98,
KIP-345, KIP-848, KIP-932, KIP-1071, and the schemas of Apache Kafka 4.3, with which a test compares these.
"""

from base64 import b64decode
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.records.schema import DecodedRecord, Field, JsonValue, Kind, RecordType, Schema, UnknownRecord, array, decode_record
from ottla.core.wire.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from ottla.core.wire.reader import Reader

FLEXIBLE_ALWAYS: Final = 0

_GROUP: Final = Schema((Field("groupId", Kind.STRING),))
_MEMBER: Final = Schema((Field("groupId", Kind.STRING), Field("memberId", Kind.STRING)))


def _texts(name: str) -> Field:
    return Field(name, Kind.STRING, is_array=True)


def _text_or_null(name: str) -> Field:
    return Field(name, Kind.STRING, is_nullable=True)


def _flexible(*fields: Field) -> Schema:
    return Schema(fields, flexible_since=FLEXIBLE_ALWAYS)


_PARTITIONS: Final = Field("partitions", Kind.INT32, is_array=True)
_TOPIC_ID: Final = Field("topicId", Kind.UUID)
_TOPIC_NAME: Final = Field("topicName", Kind.STRING)
_MEMBER_EPOCHS: Final = (Field("memberEpoch", Kind.INT32), Field("previousMemberEpoch", Kind.INT32), Field("state", Kind.INT8))
_ASSIGNMENT_EPOCHS: Final = Field("assignmentEpochs", Kind.INT32, is_array=True, is_nullable=True, tag=0, default=[])
_TARGET_METADATA: Final = _flexible(
    Field("assignmentEpoch", Kind.INT32),
    Field("assignmentTimestamp", Kind.INT64, tag=0, default=0),
)
_TARGET_MEMBER: Final = _flexible(array("topicPartitions", _TOPIC_ID, _PARTITIONS))
_OFFSET_KEY: Final = Schema((Field("group", Kind.STRING), Field("topic", Kind.STRING), Field("partition", Kind.INT32)))
_SUBTOPOLOGY: Final = Field("subtopologyId", Kind.STRING)
_TASKS: Final = ("activeTasks", "standbyTasks", "warmupTasks")
_TOPIC_INFOS: Final = (
    Field("name", Kind.STRING),
    Field("partitions", Kind.INT32),
    Field("replicationFactor", Kind.INT16),
    array("topicConfigs", Field("key", Kind.STRING), Field("value", Kind.STRING)),
)


def _indexes(name: str) -> Field:
    return Field(name, Kind.INT16, is_array=True)


_OFFSET_VALUE: Final = Schema(
    (
        Field("offset", Kind.INT64),
        Field("leaderEpoch", Kind.INT32, since=3),
        Field("metadata", Kind.STRING),
        Field("commitTimestamp", Kind.INT64),
        Field("expireTimestamp", Kind.INT64, since=1, until=1),
        Field("topicId", Kind.UUID, since=4, tag=0, default="A" * 22),
    ),
    version_max=4,
    flexible_since=4,
)
_CLASSIC_GROUP_VALUE: Final = Schema(
    (
        Field("protocolType", Kind.STRING),
        Field("generation", Kind.INT32),
        _text_or_null("protocol"),
        _text_or_null("leader"),
        Field("currentStateTimestamp", Kind.INT64, since=2),
        array(
            "members",
            Field("memberId", Kind.STRING),
            Field("groupInstanceId", Kind.STRING, is_nullable=True, since=3),
            Field("clientId", Kind.STRING),
            Field("clientHost", Kind.STRING),
            Field("rebalanceTimeout", Kind.INT32, since=1),
            Field("sessionTimeout", Kind.INT32),
            Field("subscription", Kind.BYTES),
            Field("assignment", Kind.BYTES),
        ),
    ),
    version_max=4,
    flexible_since=4,
)


RECORD_TYPES: Final[dict[int, RecordType]] = {
    0: RecordType("LegacyOffsetCommit", _OFFSET_KEY, _OFFSET_VALUE),
    1: RecordType("OffsetCommit", _OFFSET_KEY, _OFFSET_VALUE),
    2: RecordType("GroupMetadata", Schema((Field("group", Kind.STRING),)), _CLASSIC_GROUP_VALUE),
    3: RecordType(
        "ConsumerGroupMetadata",
        _GROUP,
        _flexible(Field("epoch", Kind.INT32), Field("metadataHash", Kind.INT64, tag=0, default=0)),
    ),
    4: RecordType(
        "ConsumerGroupPartitionMetadata",
        _GROUP,
        _flexible(
            array(
                "topics",
                _TOPIC_ID,
                _TOPIC_NAME,
                Field("numPartitions", Kind.INT32),
                array("partitionMetadata", Field("partition", Kind.INT32), _texts("racks")),
            ),
        ),
    ),
    5: RecordType(
        "ConsumerGroupMemberMetadata",
        _MEMBER,
        _flexible(
            _text_or_null("instanceId"),
            _text_or_null("rackId"),
            Field("clientId", Kind.STRING),
            Field("clientHost", Kind.STRING),
            _texts("subscribedTopicNames"),
            _text_or_null("subscribedTopicRegex"),
            Field("rebalanceTimeoutMs", Kind.INT32),
            _text_or_null("serverAssignor"),
            Field(
                "classicMemberMetadata",
                (
                    Field("sessionTimeoutMs", Kind.INT32),
                    array("supportedProtocols", Field("name", Kind.STRING), Field("metadata", Kind.BYTES)),
                ),
                is_nullable=True,
                tag=0,
                default={"sessionTimeoutMs": 0, "supportedProtocols": []},
            ),
        ),
    ),
    6: RecordType("ConsumerGroupTargetAssignmentMetadata", _GROUP, _TARGET_METADATA),
    7: RecordType("ConsumerGroupTargetAssignmentMember", _MEMBER, _TARGET_MEMBER),
    8: RecordType(
        "ConsumerGroupCurrentMemberAssignment",
        _MEMBER,
        _flexible(
            *_MEMBER_EPOCHS,
            array("assignedPartitions", _TOPIC_ID, _PARTITIONS, _ASSIGNMENT_EPOCHS),
            array("partitionsPendingRevocation", _TOPIC_ID, _PARTITIONS, _ASSIGNMENT_EPOCHS),
        ),
    ),
    10: RecordType(
        "ShareGroupMemberMetadata",
        _MEMBER,
        _flexible(
            _text_or_null("rackId"),
            Field("clientId", Kind.STRING),
            Field("clientHost", Kind.STRING),
            _texts("subscribedTopicNames"),
        ),
    ),
    11: RecordType("ShareGroupMetadata", _GROUP, _flexible(Field("epoch", Kind.INT32), Field("metadataHash", Kind.INT64))),
    12: RecordType("ShareGroupTargetAssignmentMetadata", _GROUP, _TARGET_METADATA),
    13: RecordType("ShareGroupTargetAssignmentMember", _MEMBER, _TARGET_MEMBER),
    14: RecordType(
        "ShareGroupCurrentMemberAssignment",
        _MEMBER,
        _flexible(*_MEMBER_EPOCHS, array("assignedPartitions", _TOPIC_ID, _PARTITIONS)),
    ),
    15: RecordType(
        "ShareGroupStatePartitionMetadata",
        _GROUP,
        _flexible(
            array("initializingTopics", _TOPIC_ID, _TOPIC_NAME, _PARTITIONS),
            array("initializedTopics", _TOPIC_ID, _TOPIC_NAME, _PARTITIONS),
            array("deletingTopics", _TOPIC_ID, _TOPIC_NAME),
        ),
    ),
    16: RecordType(
        "ConsumerGroupRegularExpression",
        Schema((Field("groupId", Kind.STRING), Field("regularExpression", Kind.STRING))),
        _flexible(_texts("topics"), Field("version", Kind.INT64), Field("timestamp", Kind.INT64)),
    ),
    17: RecordType(
        "StreamsGroupMetadata",
        _GROUP,
        _flexible(
            Field("epoch", Kind.INT32),
            Field("metadataHash", Kind.INT64),
            Field("validatedTopologyEpoch", Kind.INT32, tag=0, default=-1),
            Field(
                "lastAssignmentConfigs",
                (Field("key", Kind.STRING), Field("value", Kind.STRING)),
                is_array=True,
                is_nullable=True,
                tag=1,
                default=[],
            ),
        ),
    ),
    19: RecordType(
        "StreamsGroupMemberMetadata",
        _MEMBER,
        _flexible(
            _text_or_null("instanceId"),
            _text_or_null("rackId"),
            Field("clientId", Kind.STRING),
            Field("clientHost", Kind.STRING),
            Field("rebalanceTimeoutMs", Kind.INT32),
            Field("topologyEpoch", Kind.INT32),
            Field("processId", Kind.STRING),
            Field("userEndpoint", (Field("host", Kind.STRING), Field("port", Kind.UINT16)), is_nullable=True),
            array("clientTags", Field("key", Kind.STRING), Field("value", Kind.STRING)),
        ),
    ),
    20: RecordType("StreamsGroupTargetAssignmentMetadata", _GROUP, _TARGET_METADATA),
    21: RecordType("StreamsGroupTargetAssignmentMember", _MEMBER, _flexible(*(array(name, _SUBTOPOLOGY, _PARTITIONS) for name in _TASKS))),
    22: RecordType(
        "StreamsGroupCurrentMemberAssignment",
        _MEMBER,
        _flexible(
            *_MEMBER_EPOCHS,
            *(array(name, _SUBTOPOLOGY, _PARTITIONS, _ASSIGNMENT_EPOCHS) for name in _TASKS),
            *(array(f"{name}PendingRevocation", _SUBTOPOLOGY, _PARTITIONS, _ASSIGNMENT_EPOCHS) for name in _TASKS),
        ),
    ),
    23: RecordType(
        "StreamsGroupTopology",
        _GROUP,
        _flexible(
            Field("epoch", Kind.INT32),
            array(
                "subtopologies",
                _SUBTOPOLOGY,
                _texts("sourceTopics"),
                _texts("sourceTopicRegex"),
                array("stateChangelogTopics", *_TOPIC_INFOS),
                _texts("repartitionSinkTopics"),
                array("repartitionSourceTopics", *_TOPIC_INFOS),
                array("copartitionGroups", *(_indexes(name) for name in ("sourceTopics", "sourceTopicRegex", "repartitionSourceTopics"))),
            ),
        ),
    ),
}
GROUP_METADATA: Final = 2
_TOPIC_PARTITIONS: Final = (Field("topic", Kind.STRING), _PARTITIONS)
_USER_DATA: Final = Field("userData", Kind.BYTES, is_nullable=True)

# The messages that consumers embed in a classic group's record (Kafka: `ConsumerProtocol`); the version is their first field.
SUBSCRIPTION: Final = Schema(
    (
        _texts("topics"),
        _USER_DATA,
        Field("ownedPartitions", _TOPIC_PARTITIONS, is_array=True, since=1),
        Field("generationId", Kind.INT32, since=2),
        Field("rackId", Kind.STRING, is_nullable=True, since=3),
    ),
    version_max=3,
)
ASSIGNMENT: Final = Schema((array("assignedPartitions", *_TOPIC_PARTITIONS), _USER_DATA), version_max=3)


def describe(key: bytes | None, value: bytes | None) -> DecodedRecord | UnknownRecord:
    """Decode a record of the offsets topic for a dump, with the messages that consumers embed in it; PeerError if it is damaged."""
    found = decode_record(RECORD_TYPES, key, value)
    if isinstance(found, DecodedRecord) and found.record_type == GROUP_METADATA and found.value is not None:
        _decode_members(found.value)
    return found


def _decode_members(value: dict[str, JsonValue]) -> None:
    """Replace a consumer's embedded bytes by their fields; bytes of another protocol stay base64."""
    members = value["members"]
    if value["protocolType"] != CONSUMER_PROTOCOL_TYPE or not isinstance(members, list):
        return
    for member in members:
        for name, schema in (("subscription", SUBSCRIPTION), ("assignment", ASSIGNMENT)):
            reader = Reader(b64decode(member[name]))
            try:
                member[name] = schema.decode(reader, reader.int16())
            except PeerError:
                continue
