"""Decides about the replicas of a partition that exists (AlterPartitionReassignments, 45; KIP-455).

All brokers of a process share the logs: new replicas have every record, and a reassignment is complete at once.
"""

from collections.abc import Sequence

from ottla.config import shown
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.leadership import first_live, in_sync
from ottla.metadata.records import NO_LEADER, MetadataRecord, PartitionChangeRecord
from ottla.metadata.topic_changes import replicas_problem
from ottla.metadata.topics import ReplicaAssignment
from ottla.protocol.errors import ApiError, ErrorCode


def reassign(
    cluster_metadata: ClusterMetadata, name: str, number: int, replicas: Sequence[int] | None, *, may_change_count: bool
) -> MetadataRecord | ApiError | None:
    """The record that gives a partition these replicas; None if it has them. `replicas` None cancels, and there is nothing to cancel.

    The leader stays if it is one of them, else the first that runs becomes it. As in Kafka, the leader epoch rises where a replica goes.
    """
    topic = cluster_metadata.topics.get(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find a topic named {shown(name)}.")
    if not 0 <= number < len(topic.leaders):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find partition {name}:{number}.")
    if replicas is None:
        return ApiError(ErrorCode.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress.")
    before = topic.replica_assignments[number]
    refused = _refusal(cluster_metadata, number, replicas, None if may_change_count else len(before.replicas))
    if refused is not None:
        return refused
    after = ReplicaAssignment(tuple(replicas), before.directories[:1] * len(replicas))
    if after.replicas == before.replicas:
        return None
    leader = topic.leaders[number]
    if leader not in after.replicas:
        leader = first_live(after.replicas, cluster_metadata.live_ids)
    is_named = leader != topic.leaders[number] or not set(before.replicas).issubset(after.replicas)
    return PartitionChangeRecord(
        topic_id=topic.topic_id,
        partition=number,
        leader=leader if is_named else None,
        in_sync=in_sync(after, cluster_metadata.live_ids),
        replicas=after.replicas,
        directories=after.directories or None,
    )


def _refusal(cluster_metadata: ClusterMetadata, number: int, replicas: Sequence[int], count: int | None) -> ApiError | None:
    """Why a partition cannot have these replicas; `count` is how many they must be."""
    refused = replicas_problem(cluster_metadata, number, replicas)
    if refused is not None:
        return refused
    if count is not None and len(replicas) != count:
        return ApiError(ErrorCode.INVALID_REPLICATION_FACTOR, f"The replication factor is changed from {count} to {len(replicas)}")
    if first_live(replicas, cluster_metadata.live_ids) == NO_LEADER:
        return ApiError(
            ErrorCode.INVALID_REPLICA_ASSIGNMENT,
            f"All brokers specified in the manual partition assignment for partition {number} are fenced or in controlled shutdown.",
        )
    return None
