"""Decides about changes of topics, partitions and settings: the records of a change, or the error. State changes when they are replayed."""

from collections.abc import Sequence

from ottla.config import PARTITIONS_PER_TOPIC_MAX
from ottla.metadata.cluster_metadata import DIRECTORIES_SINCE, ClusterMetadata
from ottla.metadata.config_changes import Change, altered_configs, new_topic_problem
from ottla.metadata.records import NO_LEADER, ConfigRecord, MetadataRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from ottla.metadata.resource_configs import TOPIC_RESOURCE
from ottla.metadata.topics import RESERVED_TOPICS, NewTopic, Topic, topic_name_problem
from ottla.protocol.errors import ApiError, ErrorCode

PARTITIONS_PER_REQUEST_MAX = 10_000
"""New partitions of one request: of all its topics together, as in Kafka's controller (POLICY_VIOLATION)."""


def create_topic(cluster_metadata: ClusterMetadata, new: NewTopic, topic_id: bytes) -> list[MetadataRecord] | ApiError:
    """The records that create a topic (CreateTopics, 19, and auto-creation)."""
    refused = creation_refusal(cluster_metadata, new.name)
    if refused:
        return refused
    partitions = _partition_count(cluster_metadata, new)
    if isinstance(partitions, ApiError):
        return partitions
    refused = new_topic_problem(cluster_metadata.configs, new.configs)
    if refused is not None:
        return refused
    records: list[MetadataRecord] = [TopicRecord(name=new.name, topic_id=topic_id)]
    replication_factor = _replication_factor(cluster_metadata, new)
    for number in range(partitions):
        replicas = new.assignment.get(number) or _place_replicas(cluster_metadata, number, replication_factor)
        records.append(_partition(cluster_metadata, topic_id, number, tuple(replicas)))
    records += [ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name=new.name, name=n, value=v) for n, v in new.configs.items()]
    return records


def creation_refusal(cluster_metadata: ClusterMetadata, name: str) -> ApiError | None:
    """Why no topic of this name can be created; None when it can."""
    problem = topic_name_problem(name)
    if problem:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
    if name in RESERVED_TOPICS:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Creation of internal topic {name} is prohibited.")
    if name in cluster_metadata.topics:
        return ApiError(ErrorCode.TOPIC_ALREADY_EXISTS, f"Topic '{name}' already exists.")
    other = cluster_metadata.topic_with_metric_name(name)
    if other is not None:
        return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic '{name}' collides with existing topic: {other}")
    return None


def requested_partitions(cluster_metadata: ClusterMetadata, new: NewTopic) -> int:
    """The partitions that a new topic would have; 0 where their number is invalid."""
    if new.assignment:
        return len(new.assignment)
    return max(cluster_metadata.configs.default_number("num.partitions") if new.partitions == -1 else new.partitions, 0)


def _partition_count(cluster_metadata: ClusterMetadata, new: NewTopic) -> int | ApiError:
    if new.assignment:
        return _assigned_count(cluster_metadata, new)
    partitions = cluster_metadata.configs.default_number("num.partitions") if new.partitions == -1 else new.partitions
    if partitions <= 0 or partitions > PARTITIONS_PER_TOPIC_MAX:
        return ApiError(
            ErrorCode.INVALID_PARTITIONS,
            f"Number of partitions was set to an invalid value {partitions}: it must be between 1 and {PARTITIONS_PER_TOPIC_MAX}.",
        )
    replicas = _replication_factor(cluster_metadata, new)
    if replicas <= 0:
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0, or -1 to use the default value.")
    if replicas > len(cluster_metadata.broker_ids):
        return ApiError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Unable to replicate the partition {replicas} time(s): The target replication factor of {replicas} cannot be reached "
            f"because only {len(cluster_metadata.broker_ids)} broker(s) are registered.",
        )
    return partitions


def _assigned_count(cluster_metadata: ClusterMetadata, new: NewTopic) -> int | ApiError:
    if new.partitions != -1 or new.replication_factor != -1:
        return ApiError(
            ErrorCode.INVALID_REQUEST,
            "A manual partition assignment was specified, but numPartitions or replicationFactor was not set to -1.",
        )
    if sorted(new.assignment) != list(range(len(new.assignment))) or len(new.assignment) > PARTITIONS_PER_TOPIC_MAX:
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, "partitions should be a consecutive 0-based integer sequence")
    for partition, replicas in new.assignment.items():
        refused = replicas_problem(cluster_metadata, partition, replicas)
        if refused:
            return refused
    return len(new.assignment)


def replicas_problem(cluster_metadata: ClusterMetadata, partition: int, replicas: Sequence[int]) -> ApiError | None:
    """Why these brokers cannot be the replicas of a partition; None when they can."""
    if not replicas or len(set(replicas)) != len(replicas):
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment for partition {partition} is empty or repeats a broker.",
        )
    unknown = [broker for broker in replicas if broker not in cluster_metadata.broker_ids]
    if unknown:
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"The manual partition assignment includes broker {unknown[0]}, but no such broker is registered.",
        )
    return None


def delete_topic(cluster_metadata: ClusterMetadata, name: str) -> list[MetadataRecord] | ApiError:
    """The record that removes a topic (DeleteTopics, 20)."""
    topic = cluster_metadata.topics.get(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    return [RemoveTopicRecord(topic_id=topic.topic_id)]


def create_partitions(
    cluster_metadata: ClusterMetadata, name: str, count: int, assignments: Sequence[Sequence[int]] | None
) -> list[MetadataRecord] | ApiError:
    """The records that raise a topic's partition count (CreatePartitions, 37); it is never lowered."""
    topic = cluster_metadata.topics.get(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    have = len(topic.leaders)
    if count == have:
        return ApiError(ErrorCode.INVALID_PARTITIONS, f"Topic already has {have} partition(s).")
    if count < have:
        return ApiError(
            ErrorCode.INVALID_PARTITIONS, f"The topic {name} currently has {have} partition(s); {count} would not be an increase."
        )
    if count > PARTITIONS_PER_TOPIC_MAX:
        return ApiError(ErrorCode.INVALID_PARTITIONS, f"A topic may have {PARTITIONS_PER_TOPIC_MAX} partitions at most.")
    if assignments is not None:
        if len(assignments) != count - have:
            return ApiError(
                ErrorCode.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {count - have} additional partition(s), but only {len(assignments)} assignment(s) were specified.",
            )
        for number, replicas in enumerate(assignments, start=have):
            refused = replicas_problem(cluster_metadata, number, replicas)
            if refused:
                return refused
    replication_factor = len(topic.replica_assignments[0].replicas)
    records: list[MetadataRecord] = []
    for number in range(have, count):
        replicas = assignments[number - have] if assignments else _place_replicas(cluster_metadata, number, replication_factor)
        records.append(_partition(cluster_metadata, topic.topic_id, number, tuple(replicas)))
    return records


def _replication_factor(cluster_metadata: ClusterMetadata, new: NewTopic) -> int:
    return cluster_metadata.configs.default_number("default.replication.factor") if new.replication_factor == -1 else new.replication_factor


def _place_replicas(cluster_metadata: ClusterMetadata, number: int, replication_factor: int) -> list[int]:
    """The brokers of partition `number`, the preferred leader first: leaders are spread evenly."""
    ids = cluster_metadata.broker_ids
    return [ids[(number + each) % len(ids)] for each in range(min(replication_factor, len(ids)))]


def _partition(cluster_metadata: ClusterMetadata, topic_id: bytes, number: int, replicas: tuple[int, ...]) -> PartitionRecord:
    leader = next((each for each in replicas if each in cluster_metadata.live_ids), NO_LEADER)
    has_directories = cluster_metadata.directory_id and cluster_metadata.metadata_version >= DIRECTORIES_SINCE
    directories = (cluster_metadata.directory_id,) * len(replicas) if has_directories else ()
    return PartitionRecord(topic_id=topic_id, partition=number, replicas=replicas, in_sync=replicas, leader=leader, directories=directories)


def alter_config(
    cluster_metadata: ClusterMetadata, resource_type: int, resource_name: str, changes: Sequence[Change]
) -> list[MetadataRecord] | ApiError:
    """The records for IncrementalAlterConfigs (44); each change is (name, operation 0 set, 1 delete, 2 append, 3 subtract, value)."""
    if resource_type == TOPIC_RESOURCE and resource_name not in cluster_metadata.topics:
        problem = topic_name_problem(resource_name)
        if problem:
            return ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, problem)
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{resource_name}' does not exist.")
    altered = altered_configs(cluster_metadata.configs, resource_type, resource_name, changes)
    if isinstance(altered, ApiError):
        return altered
    return [ConfigRecord(resource_type=resource_type, resource_name=resource_name, name=n, value=v) for n, v in altered.items()]


def preview_topic(records: Sequence[MetadataRecord]) -> Topic:
    """The topic that these records would create."""
    preview = ClusterMetadata((), lambda _name: "")
    for record in records:
        preview.replay(record)
    (topic,) = preview.topics.values()
    return topic
