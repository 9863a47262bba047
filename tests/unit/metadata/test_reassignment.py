"""Replicas of a partition change; the leader only where it has to."""

import pytest

from ottla.config import BrokerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.reassignment import reassign
from ottla.metadata.records import PartitionChangeRecord
from ottla.metadata.topic_changes import create_topic
from ottla.metadata.topics import NewTopic, ReplicaAssignment
from ottla.protocol.errors import ApiError, ErrorCode

TOPIC = bytes(range(16))
DIRECTORY = bytes(range(16, 32))


@pytest.fixture
def cluster_metadata() -> ClusterMetadata:
    """Four brokers, and a partition `t-0` on 1 and 2, led by 1."""
    made = ClusterMetadata((1, 2, 3, 4), BrokerConfig(brokers=4).text)
    records = create_topic(made, NewTopic(name="t", assignment={0: (1, 2)}), TOPIC)
    assert not isinstance(records, ApiError)
    for record in records:
        made.replay(record)
    return made


def changed(cluster_metadata: ClusterMetadata, *replicas: int) -> tuple[int, int, tuple[int, ...]]:
    """Leader, leader epoch and replicas of `t-0` afterwards."""
    record = reassign(cluster_metadata, "t", 0, replicas, may_change_count=True)
    if record is not None:
        assert isinstance(record, PartitionChangeRecord), record
        cluster_metadata.replay(record)
    topic = cluster_metadata.topics["t"]
    return topic.leaders[0], topic.leader_epochs[0], topic.replica_assignments[0].replicas


def error(cluster_metadata: ClusterMetadata, name: str, number: int, replicas, *, may_change_count: bool = True) -> ErrorCode:
    refused = reassign(cluster_metadata, name, number, replicas, may_change_count=may_change_count)
    assert isinstance(refused, ApiError), refused
    return refused.error


@pytest.mark.parametrize(
    ("replicas", "leader", "epoch"),
    [
        ((1, 2), 1, 0),  # as it is
        ((2, 1), 1, 0),  # another order
        ((1, 2, 3), 1, 0),  # one more
        ((1,), 1, 1),  # one less
        ((3, 1), 1, 1),  # one for another
        ((2,), 2, 1),  # without the leader
        ((4, 3), 4, 1),  # others
    ],
)
def test_the_leader_stays_where_it_can(cluster_metadata, replicas: tuple[int, ...], leader: int, epoch: int) -> None:
    assert changed(cluster_metadata, *replicas) == (leader, epoch, replicas)


def test_a_stopped_broker_is_a_replica_and_not_in_sync(cluster_metadata) -> None:
    cluster_metadata.live_ids.discard(3)
    record = reassign(cluster_metadata, "t", 0, (3, 4), may_change_count=True)
    assert (record.leader, record.in_sync, record.replicas) == (4, (4,), (3, 4))
    cluster_metadata.live_ids.discard(4)
    assert error(cluster_metadata, "t", 0, (3, 4)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_each_replica_is_in_the_same_directory(cluster_metadata) -> None:
    cluster_metadata.topics["t"].replica_assignments[0] = ReplicaAssignment((1, 2), (DIRECTORY,) * 2)
    changed(cluster_metadata, 2, 3, 4)
    assert cluster_metadata.topics["t"].replica_assignments[0].directories == (DIRECTORY,) * 3


@pytest.mark.parametrize("replicas", [(), (9,), (1, 1), (-1,), (1, 9)])
def test_replicas_that_cannot_be(cluster_metadata, replicas: tuple[int, ...]) -> None:
    assert error(cluster_metadata, "t", 0, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_another_number_of_replicas_can_be_refused(cluster_metadata) -> None:
    assert error(cluster_metadata, "t", 0, (1,), may_change_count=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    record = reassign(cluster_metadata, "t", 0, (1, 3), may_change_count=False)
    assert isinstance(record, PartitionChangeRecord)


@pytest.mark.parametrize(("name", "number"), [("gone", 0), ("t", 1), ("t", -1)])
@pytest.mark.parametrize("replicas", [None, (1,)])
def test_what_there_is_not(cluster_metadata, name: str, number: int, replicas) -> None:
    assert error(cluster_metadata, name, number, replicas) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_there_is_nothing_to_cancel(cluster_metadata) -> None:
    assert error(cluster_metadata, "t", 0, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
