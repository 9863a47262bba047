"""Leaders, and moves of leaders and replicas."""

import pytest

from ottla.config import BrokerConfig
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.leadership import broker_started, broker_stopped, elect_leader, in_sync, move_leader, reassign
from ottla.metadata.records import NO_LEADER, PartitionChangeRecord
from ottla.metadata.topic_changes import create_partitions, create_topic
from ottla.metadata.topics import NewTopic, ReplicaAssignment
from ottla.protocol.errors import ApiError, ErrorCode

TOPIC = bytes(range(16))

DIRECTORY = bytes(range(16, 32))


def replay(cluster_metadata: ClusterMetadata, records) -> None:
    assert not isinstance(records, ApiError), records
    for record in records:
        cluster_metadata.replay(record)


@pytest.fixture
def cluster_metadata() -> ClusterMetadata:
    """Three brokers and a topic `t` of four partitions with two replicas each."""
    made = ClusterMetadata((1, 2, 3), BrokerConfig({"num.partitions": 4, "default.replication.factor": 2}, brokers=3).text)
    replay(made, create_topic(made, NewTopic(name="t"), TOPIC))
    return made


def test_partitions_are_spread_over_the_brokers(cluster_metadata) -> None:
    topic = cluster_metadata.topics["t"]
    assert topic.leaders == [1, 2, 3, 1]
    assert [home.replicas for home in topic.replica_assignments] == [(1, 2), (2, 3), (3, 1), (1, 2)]


def test_new_partitions_have_as_many_replicas_as_the_others(cluster_metadata) -> None:
    replay(cluster_metadata, create_partitions(cluster_metadata, "t", 6, None))
    topic = cluster_metadata.topics["t"]
    assert topic.leaders == [1, 2, 3, 1, 2, 3]
    assert topic.replica_assignments[5].replicas == (3, 1)


def test_replicas_that_were_asked_for_are_taken(cluster_metadata) -> None:
    replay(cluster_metadata, create_topic(cluster_metadata, NewTopic(name="by-hand", assignment={0: [3, 1], 1: [2]}), bytes(16)))
    topic = cluster_metadata.topics["by-hand"]
    assert topic.leaders == [3, 2]
    assert [home.replicas for home in topic.replica_assignments] == [(3, 1), (2,)]
    replay(cluster_metadata, create_partitions(cluster_metadata, "by-hand", 3, [[1, 3]]))
    assert topic.replica_assignments[2].replicas == (1, 3)


def test_more_replicas_than_brokers_cannot_be(cluster_metadata) -> None:
    refused = create_topic(cluster_metadata, NewTopic(name="many", replication_factor=4), bytes(16))
    assert refused.error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 3 broker(s)" in refused.message


def test_other_replicas_take_over_from_a_broker_that_goes_and_keep_what_they_have(cluster_metadata) -> None:
    cluster_metadata.live_ids.discard(1)
    replay(cluster_metadata, broker_stopped(cluster_metadata, 1))
    topic = cluster_metadata.topics["t"]
    assert topic.leaders == [2, 2, 3, 2]
    assert topic.leader_epochs == [1, 0, 0, 1]
    assert in_sync(topic.replica_assignments[0], cluster_metadata.live_ids) == (2,)
    cluster_metadata.live_ids.add(1)
    assert broker_started(cluster_metadata, 1) == []


def test_without_a_live_replica_there_is_no_leader_until_one_comes_back(cluster_metadata) -> None:
    for gone in (1, 2):
        cluster_metadata.live_ids.discard(gone)
        replay(cluster_metadata, broker_stopped(cluster_metadata, gone))
    topic = cluster_metadata.topics["t"]
    assert topic.leaders == [NO_LEADER, 3, 3, NO_LEADER]
    assert in_sync(topic.replica_assignments[0], cluster_metadata.live_ids) == (1, 2)
    cluster_metadata.live_ids.add(2)
    replay(cluster_metadata, broker_started(cluster_metadata, 2))
    assert topic.leaders == [2, 3, 3, 2]


def test_a_topic_made_while_a_broker_is_gone_is_led_by_those_who_run(cluster_metadata) -> None:
    cluster_metadata.live_ids.discard(1)
    replay(cluster_metadata, create_topic(cluster_metadata, NewTopic(name="later"), bytes(16)))
    assert cluster_metadata.topics["later"].leaders == [2, 2, 3, 2]


def test_a_leader_is_moved_to_another_replica(cluster_metadata) -> None:
    record = move_leader(cluster_metadata, "t", 0, 2)
    assert isinstance(record, PartitionChangeRecord)
    replay(cluster_metadata, [record])
    assert (cluster_metadata.topics["t"].leaders[0], cluster_metadata.topics["t"].leader_epochs[0]) == (2, 1)
    assert cluster_metadata.topics["t"].replica_assignments[0].replicas == (1, 2)
    assert move_leader(cluster_metadata, "t", 0, 2) is None


def test_a_broker_that_is_no_replica_becomes_one_in_the_old_leaders_place(cluster_metadata) -> None:
    replay(cluster_metadata, [move_leader(cluster_metadata, "t", 0, 3)])
    assert cluster_metadata.topics["t"].leaders[0] == 3
    assert cluster_metadata.topics["t"].replica_assignments[0].replicas == (3, 2)


@pytest.mark.parametrize(
    ("name", "number", "to", "error", "words"),
    [
        ("other", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no partition other-0"),
        ("t", 9, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no partition t-9"),
        ("t", 0, 9, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no broker 9: the brokers are 1, 2, 3"),
        ("t", 0, 2, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Broker 2 is stopped"),
    ],
)
def test_moves_that_cannot_be(cluster_metadata, name, number, to, error, words) -> None:
    cluster_metadata.live_ids.discard(2)
    refused = move_leader(cluster_metadata, name, number, to)
    assert refused.error is error
    assert words in refused.message


def test_the_first_replica_is_elected_where_it_runs(cluster_metadata) -> None:
    topic = cluster_metadata.topics["t"]
    replay(cluster_metadata, [move_leader(cluster_metadata, "t", 0, 2)])
    elected = elect_leader(cluster_metadata, "t", 0, unclean=False)
    assert elected == PartitionChangeRecord(topic_id=TOPIC, partition=0, leader=1, in_sync=(1, 2))
    cluster_metadata.live_ids.discard(1)
    assert elect_leader(cluster_metadata, "t", 0, unclean=False).error is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    assert elect_leader(cluster_metadata, "t", 1, unclean=False).error is ErrorCode.ELECTION_NOT_NEEDED
    assert topic.leaders[0] == 2


def test_an_unclean_election_makes_any_live_replica_the_leader_where_there_is_none(cluster_metadata) -> None:
    assert elect_leader(cluster_metadata, "t", 0, unclean=True).error is ErrorCode.ELECTION_NOT_NEEDED
    replay(cluster_metadata, [PartitionChangeRecord(topic_id=TOPIC, partition=0, leader=NO_LEADER)])
    assert elect_leader(cluster_metadata, "t", 0, unclean=True).leader == 1
    cluster_metadata.live_ids.discard(1)
    assert elect_leader(cluster_metadata, "t", 0, unclean=True).leader == 2
    cluster_metadata.live_ids.discard(2)
    assert elect_leader(cluster_metadata, "t", 0, unclean=True).error is ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE


@pytest.mark.parametrize(("name", "number"), [("gone", 0), ("t", 4), ("t", -1)])
def test_there_is_no_election_of_what_is_not_there(cluster_metadata, name: str, number: int) -> None:
    assert elect_leader(cluster_metadata, name, number, unclean=False).error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.fixture
def four_brokers() -> ClusterMetadata:
    """Four brokers, and a partition `t-0` on 1 and 2, led by 1."""
    made = ClusterMetadata((1, 2, 3, 4), BrokerConfig(brokers=4).text)
    records = create_topic(made, NewTopic(name="t", assignment={0: (1, 2)}), TOPIC)
    assert not isinstance(records, ApiError)
    for record in records:
        made.replay(record)
    return made


def changed(four_brokers: ClusterMetadata, *replicas: int) -> tuple[int, int, tuple[int, ...]]:
    """Leader, leader epoch and replicas of `t-0` afterwards."""
    record = reassign(four_brokers, "t", 0, replicas, may_change_count=True)
    if record is not None:
        assert isinstance(record, PartitionChangeRecord), record
        four_brokers.replay(record)
    topic = four_brokers.topics["t"]
    return topic.leaders[0], topic.leader_epochs[0], topic.replica_assignments[0].replicas


def error(four_brokers: ClusterMetadata, name: str, number: int, replicas, *, may_change_count: bool = True) -> ErrorCode:
    refused = reassign(four_brokers, name, number, replicas, may_change_count=may_change_count)
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
def test_the_leader_stays_where_it_can(four_brokers, replicas: tuple[int, ...], leader: int, epoch: int) -> None:
    assert changed(four_brokers, *replicas) == (leader, epoch, replicas)


def test_a_stopped_broker_is_a_replica_and_not_in_sync(four_brokers) -> None:
    four_brokers.live_ids.discard(3)
    record = reassign(four_brokers, "t", 0, (3, 4), may_change_count=True)
    assert (record.leader, record.in_sync, record.replicas) == (4, (4,), (3, 4))
    four_brokers.live_ids.discard(4)
    assert error(four_brokers, "t", 0, (3, 4)) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_each_replica_is_in_the_same_directory(four_brokers) -> None:
    four_brokers.topics["t"].replica_assignments[0] = ReplicaAssignment((1, 2), (DIRECTORY,) * 2)
    changed(four_brokers, 2, 3, 4)
    assert four_brokers.topics["t"].replica_assignments[0].directories == (DIRECTORY,) * 3


@pytest.mark.parametrize("replicas", [(), (9,), (1, 1), (-1,), (1, 9)])
def test_replicas_that_cannot_be(four_brokers, replicas: tuple[int, ...]) -> None:
    assert error(four_brokers, "t", 0, replicas) is ErrorCode.INVALID_REPLICA_ASSIGNMENT


def test_another_number_of_replicas_can_be_refused(four_brokers) -> None:
    assert error(four_brokers, "t", 0, (1,), may_change_count=False) is ErrorCode.INVALID_REPLICATION_FACTOR
    record = reassign(four_brokers, "t", 0, (1, 3), may_change_count=False)
    assert isinstance(record, PartitionChangeRecord)


@pytest.mark.parametrize(("name", "number"), [("gone", 0), ("t", 1), ("t", -1)])
@pytest.mark.parametrize("replicas", [None, (1,)])
def test_what_there_is_not(four_brokers, name: str, number: int, replicas) -> None:
    assert error(four_brokers, name, number, replicas) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_there_is_nothing_to_cancel(four_brokers) -> None:
    assert error(four_brokers, "t", 0, None) is ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
