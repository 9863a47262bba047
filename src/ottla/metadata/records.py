"""The records of the cluster metadata and their bytes, as in Kafka's own metadata log (KIP-631).

A value is: frame version (1), record type, record version (all unsigned varints), then the fields in flexible encoding. There are no keys.
cluster_metadata.py replays the records. Types that it does not replay stay in the log; a dump shows them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Final

from ottla.config import KAFKA_BROKER_SETTINGS, ConfigType
from ottla.config.security_settings import listener_setting
from ottla.protocol.errors import PeerError
from ottla.protocol.record_codec import (
    NO_ID,
    DecodedRecord,
    Int8,
    Int16,
    Int32,
    Int64,
    Schema,
    UInt16,
    UnknownRecord,
    Uuid,
    Wire,
    record_class,
)
from ottla.protocol.wire.primitives import Reader, Writer

FRAME_VERSION: Final = 1
NO_LEADER: Final = -1

NOT_ENFORCED: Final = {10: "delegation tokens"}
"""Types of records that this broker does not enforce, and their names."""


@record_class
class RegisteredEndpoint:
    """Where a broker or a controller listens."""

    name: str
    host: str
    port: UInt16
    security_protocol: Int16


@record_class
class SupportedFeature:
    """The versions of a feature that a broker or a controller supports."""

    name: str
    min_supported_version: Int16
    max_supported_version: Int16


@record_class
class RegisterBrokerRecord:
    """A broker registered (type 0); its epoch is the offset of this record in the log that Kafka's controller wrote."""

    broker_id: Int32
    is_migrating_zk_broker: Annotated[bool, Wire(since=2)] = False
    incarnation_id: Uuid = NO_ID
    broker_epoch: Int64
    end_points: tuple[RegisteredEndpoint, ...] = ()
    features: tuple[SupportedFeature, ...] = ()
    rack: str | None = None
    fenced: bool = True
    in_controlled_shutdown: Annotated[bool, Wire(since=1)] = False
    log_dirs: Annotated[tuple[Uuid, ...], Wire(since=3, tag=0)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, Wire(since=4, tag=1)] = None


@record_class
class UnregisterBrokerRecord:
    """A broker was removed (type 1)."""

    broker_id: Int32
    broker_epoch: Int64


@record_class
class TopicRecord:
    """A topic was created (type 2). `topic_id` is 16 bytes."""

    name: str
    topic_id: Uuid


@record_class
class PartitionRecord:
    """A partition was created, or (in a snapshot) exists (type 3). `directories`: its replicas' data directories' ids; empty: not known."""

    partition: Annotated[Int32, Wire(name="partitionId")]
    topic_id: Uuid
    replicas: tuple[Int32, ...]
    in_sync: Annotated[tuple[Int32, ...], Wire(name="isr")]
    removing_replicas: tuple[Int32, ...] = ()
    adding_replicas: tuple[Int32, ...] = ()
    leader: Int32
    leader_recovery_state: Annotated[Int8, Wire(tag=0)] = 0
    leader_epoch: Int32 = 0
    partition_epoch: Int32 = 0
    directories: Annotated[tuple[Uuid, ...], Wire(since=1)] = ()
    eligible_leaders: Annotated[tuple[Int32, ...] | None, Wire(since=2, tag=1, name="eligibleLeaderReplicas")] = None
    last_known_leaders: Annotated[tuple[Int32, ...] | None, Wire(since=2, tag=2, name="lastKnownElr")] = None


@record_class
class ConfigRecord:
    """A setting was set, or deleted (`value` None) (type 4). `resource_type`: 2 topic, 4 broker, and others."""

    resource_type: Int8
    resource_name: str
    name: str
    value: str | None


@record_class
class PartitionChangeRecord:
    """A partition changed in what is not None (type 5). Naming a leader, even the same one, raises the leader epoch by one."""

    partition: Annotated[Int32, Wire(name="partitionId")]
    topic_id: Uuid
    in_sync: Annotated[tuple[Int32, ...] | None, Wire(tag=0, name="isr")] = None
    leader: Annotated[Int32 | None, Wire(tag=1, null=-2)] = None
    replicas: Annotated[tuple[Int32, ...] | None, Wire(tag=2)] = None
    removing_replicas: Annotated[tuple[Int32, ...] | None, Wire(tag=3)] = None
    adding_replicas: Annotated[tuple[Int32, ...] | None, Wire(tag=4)] = None
    leader_recovery_state: Annotated[Int8, Wire(tag=5)] = -1
    directories: Annotated[tuple[Uuid, ...] | None, Wire(since=1, tag=8)] = None
    eligible_leaders: Annotated[tuple[Int32, ...] | None, Wire(since=2, tag=6, name="eligibleLeaderReplicas")] = None
    last_known_leaders: Annotated[tuple[Int32, ...] | None, Wire(since=2, tag=7, name="lastKnownElr")] = None


@record_class
class FenceBrokerRecord:
    """A broker was fenced (type 7), or not any more (type 8)."""

    broker_id: Annotated[Int32, Wire(name="id")]
    epoch: Int64


@record_class
class RemoveTopicRecord:
    """A topic was deleted, with its partitions and settings (type 9)."""

    topic_id: Uuid


@record_class
class DelegationTokenRecord:
    """A delegation token (type 10)."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_timestamp: Int64
    max_timestamp: Int64
    expiration_timestamp: Int64
    token_id: str


@record_class
class UserScramCredentialRecord:
    """How a user's password is checked (type 11)."""

    name: str
    mechanism: Int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: Int32


@record_class
class FeatureLevelRecord:
    """A feature of the cluster has a version (type 12); `metadata.version` says which record versions may be written."""

    name: str
    level: Annotated[Int16, Wire(name="featureLevel")]


@record_class
class QuotaEntity:
    """A part of what a quota is for; a null name stands for the default."""

    entity_type: str
    entity_name: str | None


@record_class
class ClientQuotaRecord:
    """A quota was set or removed (type 14)."""

    entity: tuple[QuotaEntity, ...]
    key: str
    value: float
    remove: bool


@record_class
class ProducerIdsRecord:
    """Producer ids below `next_producer_id` have been handed to a broker (type 15)."""

    broker_id: Int32
    broker_epoch: Int64 = 0
    next_producer_id: Int64


@record_class
class BrokerRegistrationChangeRecord:
    """A broker's registration changed (type 17); 0 stands for no change."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Annotated[Int8, Wire(tag=0)] = 0
    in_controlled_shutdown: Annotated[Int8, Wire(since=1, tag=1)] = 0
    log_dirs: Annotated[tuple[Uuid, ...], Wire(since=2, tag=2)] = ()
    cordoned_log_dirs: Annotated[tuple[Uuid, ...] | None, Wire(since=3, tag=3)] = None


@record_class
class AccessControlEntryRecord:
    """An access control entry (type 18)."""

    entry_id: Annotated[Uuid, Wire(name="id")]
    resource_type: Int8
    resource_name: str
    pattern_type: Int8
    principal: str
    host: str
    operation: Int8
    permission_type: Int8


@record_class
class RemoveAccessControlEntryRecord:
    """An access control entry was removed (type 19)."""

    entry_id: Annotated[Uuid, Wire(name="id")]


@record_class
class NoOpRecord:
    """Nothing (type 20): the controller shows that it lives."""


@record_class
class ZkMigrationStateRecord:
    """How far the migration from ZooKeeper is (type 21)."""

    zk_migration_state: Int8


@record_class
class RemoveUserScramCredentialRecord:
    """A user's credential was removed (type 22)."""

    name: str
    mechanism: Int8


@record_class
class BeginTransaction:
    """The records that follow take effect when the transaction ends (type 23, KIP-868)."""

    name: Annotated[str | None, Wire(tag=0)] = None


@record_class
class EndTransaction:
    """The records since the begin take effect (type 24)."""


@record_class
class AbortTransaction:
    """The records since the begin have no effect (type 25)."""

    reason: Annotated[str | None, Wire(tag=0)] = None


@record_class
class RemoveDelegationTokenRecord:
    """A delegation token was removed (type 26)."""

    token_id: str


@record_class
class RegisterControllerRecord:
    """A controller registered (type 27)."""

    controller_id: Int32
    incarnation_id: Uuid
    zk_migration_ready: bool
    end_points: tuple[RegisteredEndpoint, ...]
    features: tuple[SupportedFeature, ...]


@record_class
class ClearElrRecord:
    """The eligible leaders of a topic, or of all topics, were forgotten (type 28)."""

    topic_name: str


MetadataRecord = (
    RegisterBrokerRecord
    | TopicRecord
    | PartitionRecord
    | PartitionChangeRecord
    | ConfigRecord
    | RemoveTopicRecord
    | FeatureLevelRecord
    | ProducerIdsRecord
    | AccessControlEntryRecord
    | RemoveAccessControlEntryRecord
    | ClientQuotaRecord
    | UserScramCredentialRecord
    | RemoveUserScramCredentialRecord
)
TransactionMark = BeginTransaction | EndTransaction | AbortTransaction


@dataclass(frozen=True, slots=True)
class MetadataRecordType:
    """A type of record: Kafka's name, and its class; `is_replayed`: it is a MetadataRecord or a TransactionMark."""

    name: str
    schema: Schema[Any]
    is_replayed: bool


def _type(name: str, record: Any, version_max: int = 0, *, is_replayed: bool = False) -> MetadataRecordType:
    return MetadataRecordType(name, Schema(record, version_max=version_max, flexible_since=0), is_replayed)


METADATA_TYPES: Final[Mapping[int, MetadataRecordType]] = {
    0: _type("REGISTER_BROKER_RECORD", RegisterBrokerRecord, 4, is_replayed=True),
    1: _type("UNREGISTER_BROKER_RECORD", UnregisterBrokerRecord),
    2: _type("TOPIC_RECORD", TopicRecord, is_replayed=True),
    3: _type("PARTITION_RECORD", PartitionRecord, 2, is_replayed=True),
    4: _type("CONFIG_RECORD", ConfigRecord, is_replayed=True),
    5: _type("PARTITION_CHANGE_RECORD", PartitionChangeRecord, 2, is_replayed=True),
    7: _type("FENCE_BROKER_RECORD", FenceBrokerRecord),
    8: _type("UNFENCE_BROKER_RECORD", FenceBrokerRecord),
    9: _type("REMOVE_TOPIC_RECORD", RemoveTopicRecord, is_replayed=True),
    10: _type("DELEGATION_TOKEN_RECORD", DelegationTokenRecord),
    11: _type("USER_SCRAM_CREDENTIAL_RECORD", UserScramCredentialRecord, is_replayed=True),
    12: _type("FEATURE_LEVEL_RECORD", FeatureLevelRecord, is_replayed=True),
    14: _type("CLIENT_QUOTA_RECORD", ClientQuotaRecord, is_replayed=True),
    15: _type("PRODUCER_IDS_RECORD", ProducerIdsRecord, is_replayed=True),
    17: _type("BROKER_REGISTRATION_CHANGE_RECORD", BrokerRegistrationChangeRecord, 3),
    18: _type("ACCESS_CONTROL_ENTRY_RECORD", AccessControlEntryRecord, is_replayed=True),
    19: _type("REMOVE_ACCESS_CONTROL_ENTRY_RECORD", RemoveAccessControlEntryRecord, is_replayed=True),
    20: _type("NO_OP_RECORD", NoOpRecord),
    21: _type("ZK_MIGRATION_STATE_RECORD", ZkMigrationStateRecord),
    22: _type("REMOVE_USER_SCRAM_CREDENTIAL_RECORD", RemoveUserScramCredentialRecord, is_replayed=True),
    23: _type("BEGIN_TRANSACTION_RECORD", BeginTransaction, is_replayed=True),
    24: _type("END_TRANSACTION_RECORD", EndTransaction, is_replayed=True),
    25: _type("ABORT_TRANSACTION_RECORD", AbortTransaction, is_replayed=True),
    26: _type("REMOVE_DELEGATION_TOKEN_RECORD", RemoveDelegationTokenRecord),
    27: _type("REGISTER_CONTROLLER_RECORD", RegisterControllerRecord),
    28: _type("CLEAR_ELR_RECORD", ClearElrRecord),
}
_NUMBERS: Final = {record_type.schema.type: number for number, record_type in METADATA_TYPES.items() if record_type.is_replayed}


def encode(record: MetadataRecord | TransactionMark) -> bytes:
    """Encode a record as a value, in the lowest version of its type that has its fields."""
    number = _NUMBERS[type(record)]
    schema = METADATA_TYPES[number].schema
    version = schema.lowest_version(record)
    return schema.encode(Writer().uvarint(FRAME_VERSION).uvarint(number).uvarint(version), record, version).to_bytes()


def record_type(value: bytes) -> int:
    """The number of the record's type. Raises PeerError."""
    return _read_type(Reader(value))


def _read_type(reader: Reader) -> int:
    if reader.uvarint() != FRAME_VERSION:
        raise PeerError("a cluster metadata record of an unknown frame version")
    return reader.uvarint()


def decode(value: bytes) -> MetadataRecord | TransactionMark | None:
    """Decode a value; None for a type that is not replayed (forward compatibility). Raises PeerError for invalid bytes."""
    reader = Reader(value)
    found = METADATA_TYPES.get(_read_type(reader))
    if found is None or not found.is_replayed:
        return None
    record: MetadataRecord | TransactionMark = found.schema.decode(reader, reader.uvarint())
    return record


def decode_any(value: bytes | None) -> DecodedRecord | UnknownRecord:
    """A record of any type, which has no key, for a dump. Raises PeerError for invalid bytes."""
    if value is None:
        raise PeerError("a cluster metadata record has no value")
    reader = Reader(value)
    number, version = _read_type(reader), reader.uvarint()
    if number not in METADATA_TYPES:
        return UnknownRecord(number, None)
    schema = METADATA_TYPES[number].schema
    if version > schema.version_max:
        return UnknownRecord(number, version)
    return DecodedRecord(number, None, version, schema.decode(reader, version))


_SECRET_FIELDS: Final = ("salt", "storedKey", "serverKey")
HIDDEN: Final = "[hidden]"


def metadata_record_json(record: DecodedRecord) -> dict[str, Any]:
    """A record as Kafka's dump prints it, but for secrets: keys of users, and settings that are passwords."""
    assert record.value_version is not None, "every record of the cluster metadata has a value"
    found = METADATA_TYPES[record.record_type]
    data = found.schema.to_json(record.value, record.value_version)
    if isinstance(record.value, UserScramCredentialRecord):
        data |= dict.fromkeys(_SECRET_FIELDS, HIDDEN)
    elif isinstance(record.value, ConfigRecord) and record.value.value is not None and _is_password(record.value.name):
        data["value"] = HIDDEN
    return {"type": found.name, "version": record.value_version, "data": data}


def _is_password(name: str) -> bool:
    setting = KAFKA_BROKER_SETTINGS.get(name) or listener_setting(name)
    return setting is not None and setting.type is ConfigType.PASSWORD
