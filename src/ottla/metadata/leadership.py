"""Decides which broker of a process leads which partition when a broker starts or stops, and about moves of leaders and replicas.

All brokers of a process share the logs, so every live replica is in sync: new replicas have every record, and a reassignment
(AlterPartitionReassignments, 45; KIP-455) is complete at once. The results are records, or an error.
"""

from collections.abc import Container, Sequence

from ottla.config import shown
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.records import NO_LEADER, MetadataRecord, PartitionChangeRecord
from ottla.metadata.topic_changes import replicas_problem
from ottla.metadata.topics import ReplicaAssignment, Topic
from ottla.protocol.errors import ApiError, ErrorCode


def broker_stopped(cluster_metadata: ClusterMetadata, broker_id: int) -> list[MetadataRecord]:
    """The records when a broker has stopped: the first live replica leads each partition that it led, or none does."""
    return [
        _change(topic, number, first_live(topic.replica_assignments[number].replicas, cluster_metadata.live_ids), cluster_metadata.live_ids)
        for topic, number in _led_by(cluster_metadata, broker_id)
    ]


def broker_started(cluster_metadata: ClusterMetadata, broker_id: int) -> list[MetadataRecord]:
    """The records when a broker has started: it leads its partitions that have no leader."""
    return [
        _change(topic, number, broker_id, cluster_metadata.live_ids)
        for topic, number in _led_by(cluster_metadata, NO_LEADER)
        if broker_id in topic.replica_assignments[number].replicas
    ]


def move_leader(cluster_metadata: ClusterMetadata, name: str, number: int, to: int) -> MetadataRecord | ApiError | None:
    """The record that makes `to` the leader; None when it leads already. One that is no replica replaces the current leader as one."""
    topic = cluster_metadata.topics.get(name)
    if topic is None or not 0 <= number < len(topic.leaders):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no partition {name}-{number}.")
    if to not in cluster_metadata.broker_ids:
        known = ", ".join(map(str, cluster_metadata.broker_ids))
        return ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"There is no broker {to}: the brokers are {known}.")
    if to not in cluster_metadata.live_ids:
        return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, f"Broker {to} is stopped: start it before it leads {name}-{number}.")
    leader = topic.leaders[number]
    if leader == to:
        return None
    replicas = topic.replica_assignments[number].replicas
    if to in replicas:
        return _change(topic, number, to, cluster_metadata.live_ids)
    replaced = leader if leader in replicas else replicas[-1]
    return _change(topic, number, to, cluster_metadata.live_ids, replicas=tuple(to if each == replaced else each for each in replicas))


def elect_leader(cluster_metadata: ClusterMetadata, name: str, number: int, *, unclean: bool) -> MetadataRecord | ApiError:
    """The record that makes the preferred leader, the first replica, the leader; with `unclean`, any replica where there is no leader."""
    topic = cluster_metadata.topics.get(name)
    if topic is None:
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {shown(name)}")
    if not 0 <= number < len(topic.leaders):
        return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such partition as {name}-{number}")
    replicas = topic.replica_assignments[number].replicas
    leader = topic.leaders[number]
    if leader != NO_LEADER if unclean else leader == replicas[0]:
        return ApiError(ErrorCode.ELECTION_NOT_NEEDED, "Leader election not needed for topic partition.")
    elected = first_live(replicas, cluster_metadata.live_ids)
    if unclean and elected == NO_LEADER:
        return ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Eligible topic partition leaders are not available.")
    if not unclean and elected != replicas[0]:
        return ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE, "The preferred leader was not available.")
    return _change(topic, number, elected, cluster_metadata.live_ids)


def first_live(replicas: Sequence[int], live_ids: Container[int]) -> int:
    """The first replica whose broker runs, NO_LEADER when none does."""
    return next((each for each in replicas if each in live_ids), NO_LEADER)


def in_sync(assignment: ReplicaAssignment, live_ids: Container[int]) -> tuple[int, ...]:
    """The replicas whose brokers run; all of them when none does, since none could fall behind."""
    return tuple(each for each in assignment.replicas if each in live_ids) or assignment.replicas


def _led_by(cluster_metadata: ClusterMetadata, broker_id: int) -> list[tuple[Topic, int]]:
    return [
        (topic, number) for topic in cluster_metadata.topics.values() for number, leader in enumerate(topic.leaders) if leader == broker_id
    ]


def _change(
    topic: Topic, number: int, leader: int, live_ids: Container[int], *, replicas: tuple[int, ...] | None = None
) -> PartitionChangeRecord:
    assignment = topic.replica_assignments[number]
    directories = None
    if replicas is not None:
        directories = assignment.directories or None  # one for each replica, and all of them are the same
        assignment = ReplicaAssignment(replicas, assignment.directories)
    return PartitionChangeRecord(
        topic_id=topic.topic_id,
        partition=number,
        leader=leader,
        in_sync=in_sync(assignment, live_ids),
        replicas=replicas,
        directories=directories,
    )


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
