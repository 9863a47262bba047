"""Decides, when a data directory is opened, whether these brokers can serve it, and which records its metadata log needs first.

The input is cluster metadata that has been replayed; the results are sentences or records. Records of Kafka's Raft layer are in the log
and its snapshots: voters, names of snapshots (KIP-595, KIP-630, KIP-853). The first snapshot of a new directory names this node as the
only voter, for Apache Kafka. There are no elections: a directory with other voters is not served.
"""

import re
from collections.abc import Collection, Sequence
from typing import Final, NamedTuple

from ottla.metadata.cluster_metadata import DIRECTORIES_SINCE, METADATA_VERSION, ClusterMetadata
from ottla.metadata.records import ConfigRecord, FeatureLevelRecord, MetadataRecord, PartitionChangeRecord
from ottla.metadata.resource_configs import BROKER_RESOURCE
from ottla.metadata.topics import RESERVED_TOPICS, ReplicaAssignment
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.control import CONTROL_KEY, ControlType, control_type
from ottla.protocol.wire.primitives import Reader, Writer

BOOTSTRAP_SNAPSHOT: Final = "bootstrap.checkpoint"
SNAPSHOT_SUFFIX: Final = ".checkpoint"
_SNAPSHOT_NAME: Final = re.compile(r"([0-9]{20})-([0-9]{10})\.checkpoint")

# The controller's address in Apache Kafka's example configuration. The node corrects it when it becomes leader.
_CONTROLLER: Final = ("CONTROLLER", "localhost", 9093)
_KRAFT_VERSION_MAX: Final = 1

FIRST_FEATURES = {METADATA_VERSION: 25, "group.version": 1, "transaction.version": 2}
"""The features of a new directory: those of Apache Kafka 4.0, so that later versions open it (`kafka-features upgrade` raises them)."""
MIN_IN_SYNC = "min.insync.replicas"
_ELIGIBLE_LEADERS_SINCE = 23
_RESERVED_IDS = 100  # the lowest directory ids mean "not known", "not yet placed" and "lost"


class SnapshotId(NamedTuple):
    """A snapshot holds all below `end_offset`; `epoch` is the leader epoch of the last record in it."""

    end_offset: int
    epoch: int

    @property
    def file_name(self) -> str:
        """`<end offset>-<epoch>.checkpoint`, with 20 and 10 digits."""
        return f"{self.end_offset:020d}-{self.epoch:010d}{SNAPSHOT_SUFFIX}"


def snapshot_ids(names: Sequence[str]) -> list[SnapshotId]:
    """The snapshots among the file names of a directory, oldest first."""
    found = [_SNAPSHOT_NAME.fullmatch(name) for name in names]
    return sorted(SnapshotId(int(name[1]), int(name[2])) for name in found if name)


def voters_of(record: Record) -> frozenset[int] | None:
    """The voters that a control record names; None when it names none. Raises PeerError."""
    kind, read = control_type(record.key), Reader(record.value or b"", flexible=True)
    if kind == ControlType.LEADER_CHANGE:
        version, _ = read.int16(), read.int32()
        return frozenset(_voter(read, version) for _ in range(read.count(5)))
    if kind == ControlType.KRAFT_VOTERS:
        read.int16()
        return frozenset(_full_voter(read) for _ in range(read.count(23)))
    return None


def _voter(read: Reader, version: int) -> int:
    voter = read.int32()
    read.skip(16 if version >= 1 else 0)  # the id of its data directory
    read.skip_tagged_fields()
    return voter


def _full_voter(read: Reader) -> int:
    voter = read.int32()
    read.skip(16)  # the id of its data directory
    for _ in range(read.count(5)):
        read.string(), read.string()  # the listener and its host
        read.skip(2)
        read.skip_tagged_fields()
    read.skip(4)  # the versions of kraft.version that it supports
    read.skip_tagged_fields()
    read.skip_tagged_fields()
    return voter


def first_snapshot(node_id: int, directory_id: bytes, now_ms: int) -> bytes:
    """The snapshot at offset 0 that `kafka-storage format --standalone` writes: this node is the only voter."""
    name, host, port = _CONTROLLER
    voter = Writer(flexible=True).int32(node_id).raw(directory_id).array(1).string(name).string(host).raw(port.to_bytes(2)).end()
    voter.int16(0).int16(_KRAFT_VERSION_MAX).end().end()
    head = [
        _control(0, ControlType.SNAPSHOT_HEADER, Writer(flexible=True).int16(0).int64(now_ms).end(), now_ms),
        _control(1, ControlType.KRAFT_VERSION, Writer(flexible=True).int16(0).int16(_KRAFT_VERSION_MAX).end(), now_ms),
        _control(2, ControlType.KRAFT_VOTERS, Writer(flexible=True).int16(0).array(1).raw(voter.to_bytes()).end(), now_ms),
    ]
    foot = [_control(3, ControlType.SNAPSHOT_FOOTER, Writer(flexible=True).int16(0).end(), now_ms)]
    return bytes(encode_batch(head, is_control=True) + encode_batch(foot, base_offset=3, is_control=True))


def _control(offset: int, kind: ControlType, value: Writer, now_ms: int) -> Record:
    return Record(offset, now_ms, CONTROL_KEY.pack(0, kind), value.to_bytes())


def is_finished(records: Sequence[Record]) -> bool:
    """Whether the last record of a snapshot is its footer: one without it was not written to its end."""
    try:
        return bool(records) and control_type(records[-1].key) == ControlType.SNAPSHOT_FOOTER
    except PeerError:
        return False


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
