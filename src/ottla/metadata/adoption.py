"""Decides, when a data directory is opened, whether these brokers can serve it, and which records its metadata log needs first.

The input is cluster metadata that has been replayed; the results are sentences or records.
"""

from collections.abc import Collection

from ottla.metadata.cluster_metadata import DIRECTORIES_SINCE, METADATA_VERSION, ClusterMetadata
from ottla.metadata.records import ConfigRecord, FeatureLevelRecord, MetadataRecord, PartitionChangeRecord
from ottla.metadata.resource_configs import BROKER_RESOURCE
from ottla.metadata.topics import RESERVED_TOPICS, ReplicaAssignment

FIRST_FEATURES = {METADATA_VERSION: 25, "group.version": 1, "transaction.version": 2}
"""The features of a new directory: those of Apache Kafka 4.0, so that later versions open it (`kafka-features upgrade` raises them)."""
MIN_IN_SYNC = "min.insync.replicas"
_ELIGIBLE_LEADERS_SINCE = 23
_RESERVED_IDS = 100  # the lowest directory ids mean "not known", "not yet placed" and "lost"


def adoption_problem(cluster_metadata: ClusterMetadata, directory_id: bytes, voters: Collection[int]) -> str | None:
    """Why these brokers cannot serve the directory alone, as a sentence that ends with what to do; None when they can."""
    node_ids = cluster_metadata.broker_ids
    others = sorted(set(voters) - {node_ids[0]})
    if others:
        named = ", ".join(map(str, sorted(voters)))
        return (
            f"the directory belongs to a cluster whose controllers are the nodes {named}: only a node that is broker and single controller"
            " at once can be opened here"
        )
    for name in sorted(RESERVED_TOPICS & cluster_metadata.topics.keys()):
        return (
            f"the cluster has a topic {name}, whose files would be the metadata log itself: nothing was changed; restore the directory"
            " from a copy that is older than this topic"
        )
    for topic in cluster_metadata.topics.values():
        for number, (replicas, directories) in enumerate(topic.replica_assignments):
            if not replicas or not set(replicas).issubset(node_ids):
                where = ", ".join(map(str, replicas)) or "no broker"
                here = f"node {node_ids[0]} alone" if len(node_ids) == 1 else f"the nodes {', '.join(map(str, node_ids))}"
                return (
                    f"partition {topic.name}-{number} lies on {where}, and this is {here}: a directory of several Ottla brokers opens with"
                    f" as many (--brokers {_brokers_needed(cluster_metadata)}); of a cluster of Apache Kafka, move every partition"
                    " to this node"
                    " with replication factor 1 (kafka-reassign-partitions) and stop the others first"
                )
            if any(other != directory_id and int.from_bytes(other) >= _RESERVED_IDS for other in directories):
                return f"partition {topic.name}-{number} lies in another one of the node's log.dirs: only nodes with one are opened here"
    return None


def _brokers_needed(cluster_metadata: ClusterMetadata) -> int:
    """How many brokers, from the first on, hold every partition."""
    assignments = (each for topic in cluster_metadata.topics.values() for each in topic.replica_assignments)
    last = max((broker_id for assignment in assignments for broker_id in assignment.replicas), default=0)
    return max(last - cluster_metadata.broker_ids[0] + 1, 1)


def first_records(cluster_metadata: ClusterMetadata) -> list[MetadataRecord]:
    """The first records of a new log; none if it has them: the versions of the cluster's features, and a minimum of in-sync replicas that
    is one of all brokers, as Kafka makes it with KIP-966.
    """
    if cluster_metadata.metadata_version:
        return []
    features = [FeatureLevelRecord(name=name, level=level) for name, level in FIRST_FEATURES.items()]
    value, _ = cluster_metadata.configs.broker_value(MIN_IN_SYNC)
    return [*features, ConfigRecord(resource_type=BROKER_RESOURCE, resource_name="", name=MIN_IN_SYNC, value=value)]


def elect_leaders(cluster_metadata: ClusterMetadata, *, after_crash: bool) -> list[MetadataRecord]:
    """The records that make each partition led by a live broker that holds it, where the log has another leader.

    After a crash they are written for every partition, because records may be lost that clients have read: the new leader epoch lets
    clients detect it (KIP-320), as when Apache Kafka starts.
    """
    has_eligible = cluster_metadata.metadata_version >= _ELIGIBLE_LEADERS_SINCE
    return [
        PartitionChangeRecord(
            topic_id=topic.topic_id,
            partition=number,
            leader=leader if leader in cluster_metadata.live_ids else topic.replica_assignments[number].replicas[0],
            in_sync=topic.replica_assignments[number].replicas,
            eligible_leaders=() if has_eligible else None,
            last_known_leaders=() if has_eligible else None,
            directories=_directories(cluster_metadata, topic.replica_assignments[number]),
        )
        for topic in cluster_metadata.topics.values()
        for number, leader in enumerate(topic.leaders)
        if leader not in cluster_metadata.live_ids or after_crash
    ]


def _directories(cluster_metadata: ClusterMetadata, assignment: ReplicaAssignment) -> tuple[bytes, ...] | None:
    """This directory for each replica, where the metadata version has directories and the log lacks them; else None."""
    here = (cluster_metadata.directory_id,) * len(assignment.replicas)
    return here if cluster_metadata.metadata_version >= DIRECTORIES_SINCE and assignment.directories != here else None
