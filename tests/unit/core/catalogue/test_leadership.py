"""Who leads when brokers come, go and are asked."""

import pytest

from ottla.core.catalogue.catalogue import Catalogue, NewTopic
from ottla.core.catalogue.leadership import in_sync, move, when_back, when_gone
from ottla.core.catalogue.records import NO_LEADER, PartitionChangeRecord
from ottla.core.catalogue.resource_configs import Refused
from ottla.core.config import BrokerConfig
from ottla.core.errors import ErrorCode

TOPIC = bytes(range(16))


def replay(catalogue: Catalogue, records) -> None:
    assert not isinstance(records, Refused), records
    for record in records:
        catalogue.replay(record)


@pytest.fixture
def catalogue() -> Catalogue:
    """Three brokers and a topic `t` of four partitions with two replicas each."""
    made = Catalogue((1, 2, 3), BrokerConfig({"num.partitions": 4, "default.replication.factor": 2}, brokers=3).text)
    replay(made, made.create_topic(NewTopic(name="t"), TOPIC))
    return made


def test_partitions_are_spread_over_the_brokers(catalogue) -> None:
    topic = catalogue.topics["t"]
    assert topic.leaders == [1, 2, 3, 1]
    assert [home.replicas for home in topic.homes] == [(1, 2), (2, 3), (3, 1), (1, 2)]


def test_new_partitions_have_as_many_replicas_as_the_others(catalogue) -> None:
    replay(catalogue, catalogue.create_partitions("t", 6, None))
    topic = catalogue.topics["t"]
    assert topic.leaders == [1, 2, 3, 1, 2, 3]
    assert topic.homes[5].replicas == (3, 1)


def test_replicas_that_were_asked_for_are_taken(catalogue) -> None:
    replay(catalogue, catalogue.create_topic(NewTopic(name="by-hand", assignment={0: [3, 1], 1: [2]}), bytes(16)))
    topic = catalogue.topics["by-hand"]
    assert topic.leaders == [3, 2]
    assert [home.replicas for home in topic.homes] == [(3, 1), (2,)]
    replay(catalogue, catalogue.create_partitions("by-hand", 3, [[1, 3]]))
    assert topic.homes[2].replicas == (1, 3)


def test_more_replicas_than_brokers_cannot_be(catalogue) -> None:
    refused = catalogue.create_topic(NewTopic(name="many", replication_factor=4), bytes(16))
    assert refused.error is ErrorCode.INVALID_REPLICATION_FACTOR
    assert "only 3 broker(s)" in refused.message


def test_other_replicas_take_over_from_a_broker_that_goes_and_keep_what_they_have(catalogue) -> None:
    catalogue.live_ids.discard(1)
    replay(catalogue, when_gone(catalogue, 1))
    topic = catalogue.topics["t"]
    assert topic.leaders == [2, 2, 3, 2]
    assert topic.leader_epochs == [1, 0, 0, 1]
    assert in_sync(topic.homes[0], catalogue.live_ids) == (2,)
    catalogue.live_ids.add(1)
    assert when_back(catalogue, 1) == []


def test_without_a_live_replica_nobody_leads_until_one_comes_back(catalogue) -> None:
    for gone in (1, 2):
        catalogue.live_ids.discard(gone)
        replay(catalogue, when_gone(catalogue, gone))
    topic = catalogue.topics["t"]
    assert topic.leaders == [NO_LEADER, 3, 3, NO_LEADER]
    assert in_sync(topic.homes[0], catalogue.live_ids) == (1, 2)
    catalogue.live_ids.add(2)
    replay(catalogue, when_back(catalogue, 2))
    assert topic.leaders == [2, 3, 3, 2]


def test_a_topic_made_while_a_broker_is_gone_is_led_by_those_who_run(catalogue) -> None:
    catalogue.live_ids.discard(1)
    replay(catalogue, catalogue.create_topic(NewTopic(name="later"), bytes(16)))
    assert catalogue.topics["later"].leaders == [2, 2, 3, 2]


def test_a_leader_is_moved_to_another_replica(catalogue) -> None:
    record = move(catalogue, "t", 0, 2)
    assert isinstance(record, PartitionChangeRecord)
    replay(catalogue, [record])
    assert (catalogue.topics["t"].leaders[0], catalogue.topics["t"].leader_epochs[0]) == (2, 1)
    assert catalogue.topics["t"].homes[0].replicas == (1, 2)
    assert move(catalogue, "t", 0, 2) is None


def test_a_broker_that_is_no_replica_becomes_one_in_the_old_leaders_place(catalogue) -> None:
    replay(catalogue, [move(catalogue, "t", 0, 3)])
    assert catalogue.topics["t"].leaders[0] == 3
    assert catalogue.topics["t"].homes[0].replicas == (3, 2)


@pytest.mark.parametrize(
    ("name", "number", "to", "error", "words"),
    [
        ("other", 0, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no partition other-0"),
        ("t", 9, 1, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "no partition t-9"),
        ("t", 0, 9, ErrorCode.INVALID_REPLICA_ASSIGNMENT, "no broker 9: the brokers are 1, 2, 3"),
        ("t", 0, 2, ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, "Broker 2 is stopped"),
    ],
)
def test_moves_that_cannot_be(catalogue, name, number, to, error, words) -> None:
    catalogue.live_ids.discard(2)
    refused = move(catalogue, name, number, to)
    assert refused.error is error
    assert words in refused.message
