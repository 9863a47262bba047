"""The catalogue's decisions: what is made, what is refused, and that replay alone changes it."""

import pytest

from ottla.core.catalogue.catalogue import (
    CLUSTER_METADATA,
    RESERVED_TOPICS,
    Catalogue,
    Home,
    NewTopic,
    may_be_auto_created,
    topic_name_problem,
)
from ottla.core.catalogue.records import ConfigRecord, PartitionChangeRecord, PartitionRecord, RegisterBrokerRecord, RemoveTopicRecord
from ottla.core.catalogue.resource_configs import BROKER_RESOURCE, TOPIC_RESOURCE, Refused
from ottla.core.config import BrokerConfig, ConfigSource
from ottla.core.errors import ErrorCode


def fresh() -> Catalogue:
    return Catalogue((1,), BrokerConfig({"num.partitions": "3"}).text)


def with_topic(name: str = "t", partitions: int = 2, **configs: str) -> Catalogue:
    catalogue = fresh()
    records = catalogue.create_topic(
        NewTopic(name=name, partitions=partitions, configs={key.replace("_", "."): value for key, value in configs.items()}), bytes(16)
    )
    assert not isinstance(records, Refused)
    for record in records:
        catalogue.replay(record)
    return catalogue


def refused(decision) -> ErrorCode:
    assert isinstance(decision, Refused), decision
    return decision.error


def test_deciding_changes_nothing() -> None:
    catalogue = fresh()
    assert len(catalogue.create_topic(NewTopic(name="t"), bytes(16))) == 4  # the topic and num.partitions of them
    assert catalogue.topics == {}


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ö", "x" * 250])
def test_names_that_kafka_refuses(name: str) -> None:
    assert topic_name_problem(name)
    assert refused(fresh().create_topic(NewTopic(name=name), bytes(16))) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", sorted(RESERVED_TOPICS))
def test_the_names_of_the_brokers_own_files_are_no_topics(name: str) -> None:
    assert refused(fresh().create_topic(NewTopic(name=name), bytes(16))) is ErrorCode.INVALID_REQUEST
    assert not may_be_auto_created(name)


def test_the_metadata_log_is_reserved() -> None:
    assert CLUSTER_METADATA in RESERVED_TOPICS
    assert not isinstance(fresh().create_topic(NewTopic(name="__cluster.metadata"), bytes(16)), Refused), "as in Apache Kafka"


@pytest.mark.parametrize(
    ("new", "error"),
    [
        (NewTopic(name="t"), ErrorCode.TOPIC_ALREADY_EXISTS),
        (NewTopic(name="new", partitions=0), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="new", partitions=10_001), ErrorCode.INVALID_PARTITIONS),
        (NewTopic(name="new", replication_factor=3), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="new", replication_factor=0), ErrorCode.INVALID_REPLICATION_FACTOR),
        (NewTopic(name="new", configs={"no.such": "1"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="new", configs={"retention.ms": "soon"}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="new", configs={"retention.ms": None}), ErrorCode.INVALID_CONFIG),
        (NewTopic(name="new", partitions=1, assignment={0: [1]}), ErrorCode.INVALID_REQUEST),
        (NewTopic(name="new", assignment={1: [1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="new", assignment={0: [7]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
        (NewTopic(name="new", assignment={0: [1, 1]}), ErrorCode.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_topics_that_cannot_be_made(new: NewTopic, error: ErrorCode) -> None:
    assert refused(with_topic("t").create_topic(new, bytes(16))) is error


def test_a_name_that_differs_only_by_dot_and_underscore_collides() -> None:
    assert refused(with_topic("a.b").create_topic(NewTopic(name="a_b"), bytes(16))) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("count", [1, 2, 10_001])
def test_s0_3_partitions_are_added_never_removed(count: int) -> None:
    assert refused(with_topic().create_partitions("t", count, None)) is ErrorCode.INVALID_PARTITIONS


def test_s0_3_partitions_are_added() -> None:
    catalogue = with_topic()
    for record in catalogue.create_partitions("t", 5, None):
        catalogue.replay(record)
    assert catalogue.topics["t"].leaders == [1] * 5


def test_manual_assignments_of_new_partitions_are_checked() -> None:
    catalogue = with_topic()
    assert refused(catalogue.create_partitions("t", 4, [[1]])) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused(catalogue.create_partitions("t", 3, [[9]])) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert len(catalogue.create_partitions("t", 3, [[1]])) == 1


def test_a_deleted_topic_takes_its_settings_with_it() -> None:
    catalogue = with_topic(retention_ms="5")
    for record in catalogue.delete_topic("t"):
        catalogue.replay(record)
    assert (catalogue.topics, catalogue.topics_by_id) == ({}, {})
    assert refused(catalogue.delete_topic("t")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def alter(catalogue: Catalogue, *changes: tuple[str, int, str | None], resource: tuple[int, str] = (TOPIC_RESOURCE, "t")) -> None:
    records = catalogue.alter_config(*resource, changes)
    assert not isinstance(records, Refused), records
    for record in records:
        catalogue.replay(record)


def test_settings_are_set_deleted_appended_and_subtracted() -> None:
    catalogue = with_topic()
    alter(catalogue, ("cleanup.policy", 2, "compact"))
    assert catalogue.config_value(TOPIC_RESOURCE, "t", "cleanup.policy") == ("delete,compact", ConfigSource.DYNAMIC_TOPIC)
    alter(catalogue, ("cleanup.policy", 3, "delete"))
    assert catalogue.config_value(TOPIC_RESOURCE, "t", "cleanup.policy")[0] == "compact"
    alter(catalogue, ("cleanup.policy", 1, None))
    assert catalogue.config_value(TOPIC_RESOURCE, "t", "cleanup.policy") == ("delete", ConfigSource.DEFAULT)


def test_a_topic_follows_the_brokers_setting_until_it_has_its_own() -> None:
    catalogue = with_topic()
    alter(catalogue, ("log.retention.ms", 0, "77"), resource=(BROKER_RESOURCE, ""))
    assert catalogue.config_value(TOPIC_RESOURCE, "t", "retention.ms") == ("77", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    alter(catalogue, ("log.retention.ms", 0, "88"), resource=(BROKER_RESOURCE, "1"))
    assert catalogue.config_value(TOPIC_RESOURCE, "t", "retention.ms") == ("88", ConfigSource.DYNAMIC_BROKER)
    assert catalogue.config_value(BROKER_RESOURCE, "", "log.retention.ms")[0] == "88"
    alter(catalogue, ("retention.ms", 0, "5"))
    assert catalogue.config_value(TOPIC_RESOURCE, "t", "retention.ms") == ("5", ConfigSource.DYNAMIC_TOPIC)


@pytest.mark.parametrize(
    ("resource", "change", "error"),
    [
        ((TOPIC_RESOURCE, "t"), ("no.such", 0, "1"), ErrorCode.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "t"), ("no.such", 1, None), ErrorCode.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "t"), ("retention.ms", 2, "1"), ErrorCode.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "t"), ("retention.ms", 0, "soon"), ErrorCode.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "gone"), ("retention.ms", 0, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC_RESOURCE, "a b"), ("retention.ms", 0, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER_RESOURCE, ""), ("node.id", 0, "2"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_changes_that_are_refused(resource: tuple[int, str], change: tuple[str, int, str | None], error: ErrorCode) -> None:
    assert refused(with_topic().alter_config(*resource, [change])) is error


def test_blocks_of_producer_ids_never_overlap() -> None:
    catalogue = fresh()
    for expected in (1000, 2000, 3000):
        catalogue.replay(catalogue.next_producer_block(1))
        assert catalogue.next_producer_id == expected


def test_the_brokers_last_registration_is_remembered() -> None:
    catalogue = with_topic()
    assert catalogue.broker_epoch == -1
    for broker_id, epoch in ((1, 13), (2, 14), (1, 40)):
        catalogue.replay(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch))
    assert catalogue.broker_epoch == 40


def test_settings_of_a_topic_go_with_it_and_others_are_kept() -> None:
    catalogue = with_topic()
    for kind, name in ((TOPIC_RESOURCE, "t"), (TOPIC_RESOURCE, "not.yet"), (16, "a-client"), (BROKER_RESOURCE, "9")):
        catalogue.replay(ConfigRecord(resource_type=kind, resource_name=name, name="from.elsewhere", value="1"))
    assert catalogue.topics["t"].configs["from.elsewhere"] == "1"
    assert catalogue.alter_config(TOPIC_RESOURCE, "t", [("from.elsewhere", 1, None)]) == [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="from.elsewhere", value=None)
    ]
    catalogue.replay(RemoveTopicRecord(topic_id=catalogue.topics["t"].topic_id))
    assert catalogue.configs_set(TOPIC_RESOURCE, "t") == {}
    assert catalogue.configs_set(16, "a-client") == catalogue.configs_set(BROKER_RESOURCE, "9") == {"from.elsewhere": "1"}


def test_partitions_change() -> None:
    catalogue = with_topic()
    topic = catalogue.topics["t"]
    number = len(topic.leaders) - 1
    catalogue.replay(PartitionChangeRecord(topic_id=topic.topic_id, partition=number, replicas=(1, 2), directories=(b"x" * 16, b"y" * 16)))
    assert (topic.leader_epochs[number], topic.homes[number]) == (0, Home((1, 2), (b"x" * 16, b"y" * 16)))
    for leader, epoch in ((-1, 1), (1, 2), (1, 3)):
        catalogue.replay(PartitionChangeRecord(topic_id=topic.topic_id, partition=number, leader=leader))
        assert (topic.leaders[number], topic.leader_epochs[number]) == (leader, epoch)


@pytest.mark.parametrize("number", [-1, 10**6])
def test_a_partition_that_cannot_be_is_told(number: int) -> None:
    catalogue = with_topic()
    topic_id = catalogue.topics["t"].topic_id
    with pytest.raises(LookupError):
        catalogue.replay(PartitionRecord(topic_id=topic_id, partition=number, replicas=(1,), leader=1))
    with pytest.raises(LookupError):
        catalogue.replay(PartitionChangeRecord(topic_id=topic_id, partition=number, leader=1))
