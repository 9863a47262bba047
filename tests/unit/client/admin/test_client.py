"""The admin client against real brokers: three in one process, whose leaders and coordinators move."""

from collections.abc import Iterator

import pytest

from ottla.broker import Cluster
from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import CommittedOffset, DescribedGroup, DescribedTopic, Failure
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.testing.raw_client import create_topic

GROUPS = [f"group-{number}" for number in range(12)]
PLACES = [TopicPartition("t", number) for number in range(6)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Three brokers with a topic of six partitions, and twelve groups that have committed in it."""
    with Cluster(brokers=3, config={"offsets.topic.num.partitions": "9", "offsets.topic.replication.factor": "3"}) as brokers:
        create_topic(brokers.bootstrap_servers, "t", 6, replicas=3)
        with AdminClient(brokers.bootstrap_servers) as admin:
            for number, group in enumerate(GROUPS):
                assert admin.commit(group, {PLACES[0]: number, PLACES[5]: 0}) == {PLACES[0]: None, PLACES[5]: None}
        yield brokers


@pytest.fixture
def admin(cluster: Cluster) -> Iterator[AdminClient]:
    with AdminClient(cluster.bootstrap_servers) as admin:
        yield admin


def test_groups_of_all_brokers(cluster: Cluster, admin: AdminClient) -> None:
    assert [group.group_id for group in admin.list_groups()] == sorted(GROUPS)
    described = admin.describe_groups(GROUPS)
    coordinators = {group: cluster.coordinator(group).broker_id for group in GROUPS}
    assert set(coordinators.values()) == {1, 2, 3}
    for group, answer in described.items():
        assert isinstance(answer, DescribedGroup)
        assert (answer.coordinator.broker_id, answer.state) == (coordinators[group], "Empty")
    committed = admin.committed(GROUPS)
    assert [committed[group] for group in GROUPS] == [
        {PLACES[0]: CommittedOffset(number), PLACES[5]: CommittedOffset(0)} for number in range(len(GROUPS))
    ]


def test_coordinators_that_move_between_two_calls(cluster: Cluster, admin: AdminClient) -> None:
    for broker_id in (1, 2, 3):
        for group in GROUPS:
            cluster.move_coordinator(group, broker_id)
        committed = admin.committed(GROUPS)
        assert all(not isinstance(answer, Failure) and len(answer) == 2 for answer in committed.values())
        assert all(not isinstance(answer, Failure) for answer in admin.describe_groups(GROUPS).values())


def test_offsets_come_from_the_leaders_wherever_they_move(cluster: Cluster, admin: AdminClient) -> None:
    topic = admin.describe_topics(["t"])["t"]
    assert isinstance(topic, DescribedTopic)
    assert set(topic.leaders.values()) == {1, 2, 3}
    assert admin.list_offsets(PLACES, -1) == dict.fromkeys(PLACES, 0)
    for broker_id in (2, 1, 3):
        for topic_name, number in PLACES:
            cluster.move_leader(topic_name, number, broker_id)
        assert admin.list_offsets(PLACES, -2) == dict.fromkeys(PLACES, 0)
    assert admin.broker(2).port == int(cluster.address(2).rpartition(":")[2])


def test_a_broker_that_stops_is_replaced(cluster: Cluster) -> None:
    servers = ",".join(cluster.address(broker_id) for broker_id in cluster.brokers)
    with AdminClient(servers) as admin:
        before = admin.committed(GROUPS)
        cluster.stop_broker(1)
        try:
            assert admin.committed(GROUPS) == before
            assert len(admin.list_groups()) == len(GROUPS)
        finally:
            cluster.start_broker(1)


def test_deleting_offsets_and_groups(cluster: Cluster, admin: AdminClient) -> None:
    admin.commit("gone", {PLACES[0]: 1, PLACES[1]: 1})
    unknown = TopicPartition("nope", 0)
    assert admin.delete_offsets("gone", [PLACES[0], unknown]) == {
        PLACES[0]: None,
        unknown: Failure(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    }
    assert list(admin.committed(["gone"])["gone"]) == [PLACES[1]]  # type: ignore[arg-type]
    assert admin.delete_offsets("never", [PLACES[0]]) == Failure(ErrorCode.GROUP_ID_NOT_FOUND)
    assert admin.delete_groups(["gone", "never"]) == {"gone": None, "never": Failure(ErrorCode.GROUP_ID_NOT_FOUND)}
    assert admin.committed(["gone"]) == {"gone": {}}
