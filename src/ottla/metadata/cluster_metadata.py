"""The state of the cluster: topics with their ids, partitions and settings, as replayed from the metadata log. Only `replay` changes it.

Records of a transaction are replayed when it has ended (KIP-868): Apache Kafka's controller writes large changes as transactions of
several batches. One that was aborted, or never ended, has no effect. topic_changes.py and leadership.py decide about changes.
"""

from collections.abc import Callable, Mapping

from ottla.config import ConfigSource, Value
from ottla.metadata.acls import ClusterAcls
from ottla.metadata.client_quotas import ClientQuotas
from ottla.metadata.records import (
    NO_LEADER,
    AbortTransaction,
    AccessControlEntryRecord,
    BeginTransaction,
    ClientQuotaRecord,
    ConfigRecord,
    EndTransaction,
    FeatureLevelRecord,
    MetadataRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    RemoveUserScramCredentialRecord,
    TopicRecord,
    TransactionMark,
    UserScramCredentialRecord,
)
from ottla.metadata.resource_configs import ResourceConfigs
from ottla.metadata.scram_credentials import ScramCredentials
from ottla.metadata.topics import ReplicaAssignment, Topic, metric_name

PRODUCER_IDS_PER_BLOCK = 1000
METADATA_VERSION = "metadata.version"
GROUP_VERSION = "group.version"
DIRECTORIES_SINCE = 17
"""The metadata.version (3.7-IV2) from which on partition records name the data directories of their replicas (KIP-858)."""
_PARTITION_NUMBER_MAX = 1_000_000


class ClusterMetadata:
    """The state that the metadata log gives. `broker_ids` are the brokers that may lead partitions, `live_ids` those that run now.

    `directory_id` names the data directory that new partitions go to; `broker_epoch` is that of the first broker's last registration with
    a controller of Apache Kafka, -1 if there was none.
    """

    def __init__(self, broker_ids: tuple[int, ...], broker_default: Callable[[str], str]) -> None:
        self.topics: dict[str, Topic] = {}
        self.scram = ScramCredentials()
        self.topics_by_id: dict[bytes, Topic] = {}
        self.topics_version = 0
        """Grows with every topic or partition that is created or deleted."""
        self.topic_versions: dict[str, int] = {}
        """The version of the last change by topic, deleted ones included."""
        self.topics_created_version = 0
        """The version of the newest topic."""
        self._metric_names: dict[str, str] = {}
        self._deleted_names: set[str] = set()
        self.features: dict[str, int] = {}
        self.features_epoch = 0
        """Grows with every change of a feature's level."""
        self.next_producer_id = 0
        self.broker_epoch = -1
        self.directory_id = b""
        self.broker_ids = broker_ids
        self.live_ids = set(broker_ids)
        self.acls = ClusterAcls()
        self.client_quotas = ClientQuotas()
        self.configs = ResourceConfigs(broker_ids[0] if broker_ids else None, broker_default)

    # Reads.

    @property
    def metadata_version(self) -> int:
        """The metadata.version: which versions of records may be written; 0 until the log has it."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def group_version(self) -> int:
        """The group.version: 1 with consumer groups (KIP-848), 0 without."""
        return self.features.get(GROUP_VERSION, 0)

    def configs_set(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """The settings that were set on a resource, unknown ones included."""
        return self.configs.given(resource_type, resource_name)

    def value_in_force(self, topic: Topic, name: str) -> tuple[str, ConfigSource]:
        """A topic's setting as text: its own, or the broker's."""
        return self.configs.topic_value(topic.configs, name)

    def parsed_value(self, topic: Topic, name: str) -> Value:
        """A topic's setting as a value: its own, or the broker's."""
        return self.configs.parsed_topic_value(topic.configs, name)

    def number_in_force(self, topic: Topic, name: str) -> int:
        """The same of a setting that is a whole number."""
        value = self.parsed_value(topic, name)
        assert isinstance(value, int)
        return value

    def topic_with_metric_name(self, name: str) -> str | None:
        """The name of the topic whose name in Kafka's metrics would be the same."""
        return self._metric_names.get(metric_name(name))

    def next_producer_block(self, broker_id: int) -> ProducerIdsRecord:
        """The record that hands the next block of producer ids to a broker."""
        return ProducerIdsRecord(broker_id=broker_id, next_producer_id=self.next_producer_id + PRODUCER_IDS_PER_BLOCK)

    # Replay: the only way in which state changes.

    def replay(self, record: MetadataRecord) -> None:
        """Apply one record, at start and while running."""
        if isinstance(record, TopicRecord | PartitionRecord | RemoveTopicRecord):
            self.topics_version += 1
        match record:
            case TopicRecord():
                self.topics_created_version = self.topic_versions[record.name] = self.topics_version
                is_recreated = record.name in self._deleted_names
                topic = Topic(record.name, record.topic_id, configs=self.configs.of_topic(record.name), is_recreated=is_recreated)
                self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
                self._metric_names.setdefault(metric_name(record.name), record.name)
            case PartitionRecord():
                self._replay_partition(record)
            case PartitionChangeRecord():
                self._replay_change(record)
            case RemoveTopicRecord():
                removed = self.topics_by_id.pop(record.topic_id)
                self.topic_versions[removed.name] = self.topics_version
                del self.topics[removed.name]
                self._deleted_names.add(removed.name)
                self._metric_names.pop(metric_name(removed.name), None)
                self.configs.forget_topic(removed.name)
            case ConfigRecord():
                self.configs.replay(record)
            case AccessControlEntryRecord() | RemoveAccessControlEntryRecord():
                self.acls.replay(record)
            case ClientQuotaRecord():
                self.client_quotas.replay(record)
            case UserScramCredentialRecord() | RemoveUserScramCredentialRecord():
                self.scram.replay(record)
            case FeatureLevelRecord():
                self.features[record.name] = record.level
                self.features_epoch += 1
            case ProducerIdsRecord():
                self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
            case RegisterBrokerRecord():
                if record.broker_id == self.broker_ids[0]:
                    self.broker_epoch = record.broker_epoch

    def _replay_partition(self, record: PartitionRecord) -> None:
        topic, number = self.topics_by_id[record.topic_id], record.partition
        if not 0 <= number < _PARTITION_NUMBER_MAX:
            raise LookupError(f"topic {topic.name} cannot have a partition {number}")
        self.topic_versions[topic.name] = self.topics_version
        missing = number + 1 - len(topic.leaders)
        topic.leaders.extend([NO_LEADER] * missing)
        topic.leader_epochs.extend([0] * missing)
        topic.replica_assignments.extend([ReplicaAssignment()] * missing)
        topic.leaders[number] = record.leader
        topic.leader_epochs[number] = record.leader_epoch
        topic.replica_assignments[number] = ReplicaAssignment(record.replicas, record.directories)

    def _replay_change(self, record: PartitionChangeRecord) -> None:
        topic, number = self.topics_by_id[record.topic_id], record.partition
        if not 0 <= number < len(topic.leaders):
            raise LookupError(f"topic {topic.name} has no partition {number}")
        if record.leader is not None:
            topic.leaders[number] = record.leader
            topic.leader_epochs[number] += 1
        if record.replicas is not None:
            topic.replica_assignments[number] = topic.replica_assignments[number]._replace(replicas=record.replicas, directories=())
        if record.directories is not None:
            topic.replica_assignments[number] = topic.replica_assignments[number]._replace(directories=record.directories)


class MetadataReplay:
    """Replays a log into cluster metadata, one record after another."""

    def __init__(self, cluster_metadata: ClusterMetadata) -> None:
        self._cluster_metadata = cluster_metadata
        self._pending: list[MetadataRecord] | None = None

    @property
    def is_pending(self) -> bool:
        """Whether a transaction has begun and not ended: it must be aborted before other records are appended."""
        return self._pending is not None

    def replay(self, record: MetadataRecord | TransactionMark) -> None:
        """Replay the next record, or keep it until its transaction ends. Raises LookupError for an unknown topic or partition."""
        match record:
            case BeginTransaction():
                self._pending = []
            case EndTransaction():
                pending, self._pending = self._pending or [], None
                for one in pending:
                    self._cluster_metadata.replay(one)
            case AbortTransaction():
                self._pending = None
            case _:
                if self._pending is None:
                    self._cluster_metadata.replay(record)
                else:
                    self._pending.append(record)
