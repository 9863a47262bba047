"""Decisions about changes: the records, or the error; nothing changes before they are replayed."""

import pytest

from ottla.config import BrokerConfig, ConfigSource
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.resource_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.metadata.topic_changes import alter_config, create_partitions, create_topic, delete_topic, preview_topic, requested_partitions
from ottla.metadata.topics import CLUSTER_METADATA, RESERVED_TOPICS, NewTopic, may_be_auto_created, topic_name_problem
from ottla.protocol.errors import ApiError, ErrorCode


def fresh() -> ClusterMetadata:
    return ClusterMetadata((1,), BrokerConfig({"num.partitions": "3"}).text)


def with_topic(name: str = "t", partitions: int = 2, **configs: str) -> ClusterMetadata:
    cluster_metadata = fresh()
    records = create_topic(
        cluster_metadata,
        NewTopic(name=name, partitions=partitions, configs={key.replace("_", "."): value for key, value in configs.items()}),
        bytes(16),
    )
    assert not isinstance(records, ApiError)
    for record in records:
        cluster_metadata.replay(record)
    return cluster_metadata


def refused(decision) -> ErrorCode:
    assert isinstance(decision, ApiError), decision
    return decision.error


def test_deciding_changes_nothing() -> None:
    cluster_metadata = fresh()
    assert len(create_topic(cluster_metadata, NewTopic(name="t"), bytes(16))) == 4  # the topic and num.partitions of them
    assert cluster_metadata.topics == {}


@pytest.mark.parametrize("name", ["", ".", "..", "a b", "ö", "x" * 250])
def test_names_that_kafka_refuses(name: str) -> None:
    assert topic_name_problem(name)
    assert refused(create_topic(fresh(), NewTopic(name=name), bytes(16))) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("name", sorted(RESERVED_TOPICS))
def test_the_names_of_the_brokers_own_files_are_no_topics(name: str) -> None:
    assert refused(create_topic(fresh(), NewTopic(name=name), bytes(16))) is ErrorCode.INVALID_REQUEST
    assert not may_be_auto_created(name)


def test_the_metadata_log_is_reserved() -> None:
    assert CLUSTER_METADATA in RESERVED_TOPICS
    assert not isinstance(create_topic(fresh(), NewTopic(name="__cluster.metadata"), bytes(16)), ApiError), "as in Apache Kafka"


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
def test_topics_that_cannot_be_created(new: NewTopic, error: ErrorCode) -> None:
    assert refused(create_topic(with_topic("t"), new, bytes(16))) is error


def test_a_name_that_differs_only_by_dot_and_underscore_collides() -> None:
    assert refused(create_topic(with_topic("a.b"), NewTopic(name="a_b"), bytes(16))) is ErrorCode.INVALID_TOPIC_EXCEPTION


@pytest.mark.parametrize("count", [1, 2, 10_001])
def test_partitions_are_added_never_removed(count: int) -> None:
    assert refused(create_partitions(with_topic(), "t", count, None)) is ErrorCode.INVALID_PARTITIONS


def test_partitions_are_added() -> None:
    cluster_metadata = with_topic()
    for record in create_partitions(cluster_metadata, "t", 5, None):
        cluster_metadata.replay(record)
    assert cluster_metadata.topics["t"].leaders == [1] * 5


def test_manual_assignments_of_new_partitions_are_checked() -> None:
    cluster_metadata = with_topic()
    assert refused(create_partitions(cluster_metadata, "t", 4, [[1]])) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused(create_partitions(cluster_metadata, "t", 3, [[9]])) is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert len(create_partitions(cluster_metadata, "t", 3, [[1]])) == 1


def test_a_deleted_topic_takes_its_settings_with_it() -> None:
    cluster_metadata = with_topic(retention_ms="5")
    for record in delete_topic(cluster_metadata, "t"):
        cluster_metadata.replay(record)
    assert (cluster_metadata.topics, cluster_metadata.topics_by_id) == ({}, {})
    assert refused(delete_topic(cluster_metadata, "t")) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def alter(
    cluster_metadata: ClusterMetadata, *changes: tuple[str, int, str | None], resource: tuple[int, str] = (TOPIC_RESOURCE, "t")
) -> None:
    records = alter_config(cluster_metadata, *resource, changes)
    assert not isinstance(records, ApiError), records
    for record in records:
        cluster_metadata.replay(record)


def test_settings_are_set_deleted_appended_and_subtracted() -> None:
    cluster_metadata = with_topic()
    alter(cluster_metadata, ("cleanup.policy", 2, "compact"))
    assert cluster_metadata.value_in_force(cluster_metadata.topics["t"], "cleanup.policy") == ("delete,compact", ConfigSource.DYNAMIC_TOPIC)
    alter(cluster_metadata, ("cleanup.policy", 3, "delete"))
    assert cluster_metadata.value_in_force(cluster_metadata.topics["t"], "cleanup.policy")[0] == "compact"
    alter(cluster_metadata, ("cleanup.policy", 1, None))
    assert cluster_metadata.value_in_force(cluster_metadata.topics["t"], "cleanup.policy") == ("delete", ConfigSource.DEFAULT)


@pytest.mark.parametrize(
    ("resource", "change", "error"),
    [
        ((TOPIC_RESOURCE, "t"), ("no.such", 0, "1"), ErrorCode.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "t"), ("retention.ms", 2, "1"), ErrorCode.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "t"), ("retention.ms", 0, "soon"), ErrorCode.INVALID_CONFIG),
        ((TOPIC_RESOURCE, "gone"), ("retention.ms", 0, "1"), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        ((TOPIC_RESOURCE, "a b"), ("retention.ms", 0, "1"), ErrorCode.INVALID_TOPIC_EXCEPTION),
        ((BROKER_RESOURCE, ""), ("node.id", 0, "2"), ErrorCode.INVALID_REQUEST),
    ],
)
def test_changes_that_are_refused(resource: tuple[int, str], change: tuple[str, int, str | None], error: ErrorCode) -> None:
    assert refused(alter_config(with_topic(), *resource, [change])) is error


def test_a_preview_is_the_topic_that_the_records_create() -> None:
    cluster_metadata = fresh()
    records = create_topic(cluster_metadata, NewTopic(name="t", partitions=2, configs={"retention.ms": "5"}), bytes(16))
    assert not isinstance(records, ApiError)
    preview = preview_topic(records)
    assert (preview.name, preview.leaders, preview.configs) == ("t", [1, 1], {"retention.ms": "5"})
    assert cluster_metadata.topics == {}


@pytest.mark.parametrize(
    ("new", "count"),
    [
        (NewTopic(name="t"), 3),
        (NewTopic(name="t", partitions=7), 7),
        (NewTopic(name="t", partitions=-5), 0),
        (NewTopic(name="t", assignment={0: [1], 1: [1]}), 2),
    ],
)
def test_the_partitions_of_a_request_are_counted(new: NewTopic, count: int) -> None:
    assert requested_partitions(fresh(), new) == count
