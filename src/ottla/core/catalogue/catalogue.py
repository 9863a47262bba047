"""What the cluster holds: topics with their ids, partitions and settings. Decisions give records or a refusal; only `replay` changes state.

It knows nothing of logs, sockets or brokers other than their numbers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.core.catalogue.records import (
    NO_LEADER,
    CatalogueRecord,
    ConfigRecord,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from ottla.core.catalogue.resource_configs import TOPIC_RESOURCE, Change, Refused, ResourceConfigs
from ottla.core.config import PARTITIONS_PER_TOPIC_MAX, ConfigSource, Value
from ottla.core.errors import ErrorCode

CONSUMER_OFFSETS = "__consumer_offsets"
TRANSACTION_STATE = "__transaction_state"
SHARE_GROUP_STATE = "__share_group_state"
GROUP_EVENTS = "__ottla_group_events"
CLUSTER_METADATA = "__cluster_metadata"
RESERVED_TOPICS = frozenset({CLUSTER_METADATA})
"""No topic has one of these names: the files of such a topic would be the broker's own. `Catalogue.create_topic` refuses them."""
INTERNAL_TOPICS = frozenset({CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE, GROUP_EVENTS})
"""Topics that clients may not write to, and that Metadata marks as internal."""
_NEVER_AUTO_CREATED = RESERVED_TOPICS | {TRANSACTION_STATE, SHARE_GROUP_STATE}
"""The last two have settings that only Apache Kafka's coordinators know: made with the defaults they would lose records there."""
TOPIC_NAME_CHARS_MAX = 249
PARTITIONS_PER_REQUEST_MAX = 10_000
"""New partitions of one request: of all its topics together, as in Kafka's controller (POLICY_VIOLATION)."""
PRODUCER_IDS_PER_BLOCK = 1000
METADATA_VERSION = "metadata.version"
DIRECTORIES_SINCE = 17
"""The metadata.version (3.7-IV2) from which on partition records name the data directories of their replicas (KIP-858)."""
_PARTITION_NUMBER_MAX = 1_000_000

_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]+")


class Home(NamedTuple):
    """Where a partition lies: the brokers that hold it and, where known, the ids of their data directories."""

    replicas: tuple[int, ...] = ()
    directories: tuple[bytes, ...] = ()


@dataclass(slots=True)
class Topic:
    """One topic. `configs` holds only what was set on it, known settings or not; the lists have one item a partition.

    `is_remade`: there was another topic of this name before.
    """

    name: str
    topic_id: bytes
    leaders: list[int] = field(default_factory=list)
    leader_epochs: list[int] = field(default_factory=list)
    homes: list[Home] = field(default_factory=list)
    configs: dict[str, str] = field(default_factory=dict)
    is_remade: bool = False

    @property
    def internal(self) -> bool:
        """Whether Kafka calls it internal."""
        return self.name in INTERNAL_TOPICS


@dataclass(frozen=True, slots=True, kw_only=True)
class NewTopic:
    """A topic to be made; -1 partitions or replicas means the default. `assignment` maps partitions to replicas (usually empty)."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] = field(default_factory=dict)
    configs: Mapping[str, str | None] = field(default_factory=dict)


def topic_name_problem(name: str) -> str | None:
    """Why `name` cannot be a topic's name, in Kafka's words; None when it can."""
    if name == "":
        return "Topic name is invalid: the empty string is not allowed"
    if name in (".", ".."):
        return f"Topic name is invalid: '{name}' is not allowed"
    if len(name) > TOPIC_NAME_CHARS_MAX:
        return f"Topic name is invalid: the length of '{name}' is longer than the max allowed length {TOPIC_NAME_CHARS_MAX}"
    if not _LEGAL_NAME.fullmatch(name):
        return f"Topic name is invalid: '{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None


def metric_name(name: str) -> str:
    """A topic's name as Kafka's metrics have it: two topics must not have the same."""
    return name.replace(".", "_")


def may_be_auto_created(name: str) -> bool:
    """Whether a Metadata request may make the topic; to others it answers UNKNOWN_TOPIC_OR_PARTITION, as Apache Kafka does."""
    return name not in _NEVER_AUTO_CREATED


class Catalogue:
    """The replayed state of the cluster's own log. `broker_ids` are the brokers that may lead partitions, `live_ids` those that run now.

    `directory_id` names the data directory that new partitions go to; `broker_epoch` is that of the first broker's last registration with
    a controller of Apache Kafka, -1 if there was none.
    """

    def __init__(self, broker_ids: tuple[int, ...], broker_default: Callable[[str], str]) -> None:
        self.topics: dict[str, Topic] = {}
        self.topics_by_id: dict[bytes, Topic] = {}
        self._metric_names: dict[str, str] = {}
        self._deleted_names: set[str] = set()
        self.features: dict[str, int] = {}
        self.next_producer_id = 0
        self.broker_epoch = -1
        self.directory_id = b""
        self.broker_ids = broker_ids
        self.live_ids = set(broker_ids)
        self.configs = ResourceConfigs(broker_ids[0] if broker_ids else None, broker_default)

    # Decisions: records, or a refusal.

    def create_topic(self, new: NewTopic, topic_id: bytes) -> list[CatalogueRecord] | Refused:
        """The records that make a topic (CreateTopics, 19, and auto-creation)."""
        refused = self.name_refusal(new.name)
        if refused:
            return refused
        partitions = self._partition_count(new)
        if isinstance(partitions, Refused):
            return partitions
        refused = self.configs.problem_of_new(new.configs)
        if refused is not None:
            return refused
        records: list[CatalogueRecord] = [TopicRecord(name=new.name, topic_id=topic_id)]
        replication_factor = self._replication_factor(new)
        for number in range(partitions):
            replicas = new.assignment.get(number) or self._spread(number, replication_factor)
            records.append(self._partition(topic_id, number, tuple(replicas)))
        records += [ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=new.name, name=n, value=v) for n, v in new.configs.items()]
        return records

    def name_refusal(self, name: str) -> Refused | None:
        """Why no topic of this name can be made; None when it can."""
        problem = topic_name_problem(name)
        if problem:
            return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        if name in RESERVED_TOPICS:
            return Refused(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
        if name in self.topics:
            return Refused(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
        other = self._metric_names.get(metric_name(name))
        if other is not None:
            return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
        return None

    def partitions_asked_for(self, new: NewTopic) -> int:
        """The partitions that a new topic would have; 0 where their number is invalid."""
        if new.assignment:
            return len(new.assignment)
        return max(self.configs.default_number("num.partitions") if new.partitions == -1 else new.partitions, 0)

    def _partition_count(self, new: NewTopic) -> int | Refused:
        if new.assignment:
            return self._assigned_count(new)
        partitions = self.configs.default_number("num.partitions") if new.partitions == -1 else new.partitions
        if partitions <= 0 or partitions > PARTITIONS_PER_TOPIC_MAX:
            return Refused(
                ErrorCode.INVALID_PARTITIONS,
                f"Number of partitions was set to an invalid value {partitions}: it must be between 1 and {PARTITIONS_PER_TOPIC_MAX}.",
            )
        replicas = self._replication_factor(new)
        if replicas <= 0:
            return Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value."
            )
        if replicas > len(self.broker_ids):
            return Refused(
                ErrorCode.INVALID_REPLICATION_FACTOR,
                f"Unable to replicate the partition {replicas} time(s): The target replication factor of {replicas} cannot be reached "
                f"because only {len(self.broker_ids)} broker(s) are registered.",
            )
        return partitions

    def _assigned_count(self, new: NewTopic) -> int | Refused:
        if new.partitions != -1 or new.replication_factor != -1:
            return Refused(
                ErrorCode.INVALID_REQUEST,
                "A manual partition assignment was specified, but numPartitions or replicationFactor was not set to -1.",
            )
        if sorted(new.assignment) != list(range(len(new.assignment))) or len(new.assignment) > PARTITIONS_PER_TOPIC_MAX:
            return Refused(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
        for partition, replicas in new.assignment.items():
            refused = self._replicas_problem(partition, replicas)
            if refused:
                return refused
        return len(new.assignment)

    def _replicas_problem(self, partition: int, replicas: Sequence[int]) -> Refused | None:
        if not replicas or len(set(replicas)) != len(replicas):
            return Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment for partition {partition} is empty or repeats a broker.",
            )
        unknown = [broker for broker in replicas if broker not in self.broker_ids]
        if unknown:
            return Refused(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered.",
            )
        return None

    def delete_topic(self, name: str) -> list[CatalogueRecord] | Refused:
        """The record that removes a topic (DeleteTopics, 20)."""
        topic = self.topics.get(name)
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        return [RemoveTopicRecord(topic_id=topic.topic_id)]

    def create_partitions(self, name: str, count: int, assignments: Sequence[Sequence[int]] | None) -> list[CatalogueRecord] | Refused:
        """The records that raise a topic's partition count (CreatePartitions, 37); never lower it (S0.3)."""
        topic = self.topics.get(name)
        if topic is None:
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
        have = len(topic.leaders)
        if count == have:
            return Refused(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
        if count < have:
            return Refused(
                ErrorCode.INVALID_PARTITIONS, f"The topic {name} currently has {have} partition(s); {count} would not be an increase."
            )
        if count > PARTITIONS_PER_TOPIC_MAX:
            return Refused(ErrorCode.INVALID_PARTITIONS, f"A topic may have {PARTITIONS_PER_TOPIC_MAX} partitions at most.")
        if assignments is not None:
            if len(assignments) != count - have:
                return Refused(
                    ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                    f"Attempted to add {count - have} additional partition(s), but only {len(assignments)} assignment(s) were specified.",
                )
            for number, replicas in enumerate(assignments, start=have):
                refused = self._replicas_problem(number, replicas)
                if refused:
                    return refused
        records: list[CatalogueRecord] = []
        for number in range(have, count):
            replicas = assignments[number - have] if assignments else self._spread(number, len(topic.homes[0].replicas))
            records.append(self._partition(topic.topic_id, number, tuple(replicas)))
        return records

    def _replication_factor(self, new: NewTopic) -> int:
        return self.configs.default_number("default.replication.factor") if new.replication_factor == -1 else new.replication_factor

    def _spread(self, number: int, replication_factor: int) -> list[int]:
        """The brokers that hold partition `number`, the one that should lead it first: each broker leads as many as the others."""
        ids = self.broker_ids
        return [ids[(number + each) % len(ids)] for each in range(min(replication_factor, len(ids)))]

    def _partition(self, topic_id: bytes, number: int, replicas: tuple[int, ...]) -> PartitionRecord:
        leader = next((each for each in replicas if each in self.live_ids), NO_LEADER)
        has_directories = self.directory_id and self.metadata_version >= DIRECTORIES_SINCE
        directories = (self.directory_id,) * len(replicas) if has_directories else ()
        return PartitionRecord(topic_id=topic_id, partition=number, replicas=replicas, leader=leader, directories=directories)

    def alter_config(self, resource_type: int, resource_name: str, changes: Sequence[Change]) -> list[CatalogueRecord] | Refused:
        """The records for IncrementalAlterConfigs (44); each change is (name, operation 0 set, 1 delete, 2 append, 3 subtract, value)."""
        if resource_type == TOPIC_RESOURCE and resource_name not in self.topics:
            problem = topic_name_problem(resource_name)
            if problem:
                return Refused(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
            return Refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource_name}' does not exist.")
        altered = self.configs.altered(resource_type, resource_name, changes)
        if isinstance(altered, Refused):
            return altered
        return [ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=n, value=v) for n, v in altered.items()]

    def next_producer_block(self, broker_id: int) -> ProducerIdsRecord:
        """The record that hands the next block of producer ids to a broker."""
        return ProducerIdsRecord(broker_id=broker_id, next_producer_id=self.next_producer_id + PRODUCER_IDS_PER_BLOCK)

    # Reads.

    @property
    def metadata_version(self) -> int:
        """Which versions of the records may be written; 0 while the log does not say."""
        return self.features.get(METADATA_VERSION, 0)

    def configs_set(self, resource_type: int, resource_name: str) -> Mapping[str, str]:
        """What was set on a resource, settings that are not known here included."""
        return self.configs.given(resource_type, resource_name)

    def config_value(self, resource_type: int, resource_name: str, name: str) -> tuple[str, ConfigSource]:
        """The value in force of a topic's or broker's setting, and where it comes from; the broker "" is this one."""
        if resource_type == TOPIC_RESOURCE:
            return self.value_in_force(self.topics[resource_name], name)
        return self.configs.broker_value(name)

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

    @staticmethod
    def imagine(records: Sequence[CatalogueRecord]) -> Topic:
        """The topic that these records would make, without making it."""
        imagined = Catalogue((), lambda _name: "")
        for record in records:
            imagined.replay(record)
        (topic,) = imagined.topics.values()
        return topic

    # Replay: the only way in which state changes.

    def replay(self, record: CatalogueRecord) -> None:
        """Applies one record, at start and while running alike."""
        match record:
            case TopicRecord():
                is_remade = record.name in self._deleted_names
                topic = Topic(record.name, record.topic_id, configs=self.configs.of_topic(record.name), is_remade=is_remade)
                self.topics[record.name] = self.topics_by_id[record.topic_id] = topic
                self._metric_names.setdefault(metric_name(record.name), record.name)
            case PartitionRecord():
                self._replay_partition(record)
            case PartitionChangeRecord():
                self._replay_change(record)
            case RemoveTopicRecord():
                removed = self.topics_by_id.pop(record.topic_id)
                del self.topics[removed.name]
                self._deleted_names.add(removed.name)
                self._metric_names.pop(metric_name(removed.name), None)
                self.configs.forget_topic(removed.name)
            case ConfigRecord():
                self.configs.replay(record)
            case FeatureLevelRecord():
                self.features[record.name] = record.level
            case ProducerIdsRecord():
                self.next_producer_id = max(self.next_producer_id, record.next_producer_id)
            case RegisterBrokerRecord():
                if record.broker_id == self.broker_ids[0]:
                    self.broker_epoch = record.broker_epoch

    def _replay_partition(self, record: PartitionRecord) -> None:
        topic, number = self.topics_by_id[record.topic_id], record.partition
        if not 0 <= number < _PARTITION_NUMBER_MAX:
            raise LookupError(f"topic {topic.name} cannot have a partition {number}")
        missing = number + 1 - len(topic.leaders)
        topic.leaders.extend([NO_LEADER] * missing)
        topic.leader_epochs.extend([0] * missing)
        topic.homes.extend([Home()] * missing)
        topic.leaders[number] = record.leader
        topic.leader_epochs[number] = record.leader_epoch
        topic.homes[number] = Home(record.replicas, record.directories)

    def _replay_change(self, record: PartitionChangeRecord) -> None:
        topic, number = self.topics_by_id[record.topic_id], record.partition
        if not 0 <= number < len(topic.leaders):
            raise LookupError(f"topic {topic.name} has no partition {number}")
        if record.leader is not None:
            topic.leaders[number] = record.leader
            topic.leader_epochs[number] += 1
        if record.replicas is not None:
            topic.homes[number] = topic.homes[number]._replace(replicas=record.replicas, directories=())
        if record.directories is not None:
            topic.homes[number] = topic.homes[number]._replace(directories=record.directories)
