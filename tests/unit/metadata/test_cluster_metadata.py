"""The state of the cluster, replayed."""

import pytest

from ottla.config import BrokerConfig, ConfigSource
from ottla.metadata.cluster_metadata import ClusterMetadata, MetadataReplay
from ottla.metadata.records import (
    AbortTransaction,
    BeginTransaction,
    ConfigRecord,
    EndTransaction,
    FeatureLevelRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
)
from ottla.metadata.resource_configs import BROKER_RESOURCE, TOPIC_RESOURCE
from ottla.metadata.topic_changes import alter_config, create_topic
from ottla.metadata.topics import NewTopic, ReplicaAssignment
from ottla.protocol.errors import ApiError

ONE = FeatureLevelRecord(name="one", level=1)
TWO = FeatureLevelRecord(name="two", level=2)


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


def alter(
    cluster_metadata: ClusterMetadata, *changes: tuple[str, int, str | None], resource: tuple[int, str] = (TOPIC_RESOURCE, "t")
) -> None:
    records = alter_config(cluster_metadata, *resource, changes)
    assert not isinstance(records, ApiError), records
    for record in records:
        cluster_metadata.replay(record)


def test_a_topic_follows_the_brokers_setting_until_it_has_its_own() -> None:
    cluster_metadata = with_topic()
    alter(cluster_metadata, ("log.retention.ms", 0, "77"), resource=(BROKER_RESOURCE, ""))
    assert cluster_metadata.value_in_force(cluster_metadata.topics["t"], "retention.ms") == ("77", ConfigSource.DYNAMIC_DEFAULT_BROKER)
    alter(cluster_metadata, ("log.retention.ms", 0, "88"), resource=(BROKER_RESOURCE, "1"))
    assert cluster_metadata.value_in_force(cluster_metadata.topics["t"], "retention.ms") == ("88", ConfigSource.DYNAMIC_BROKER)
    assert cluster_metadata.configs.broker_value("log.retention.ms")[0] == "88"
    alter(cluster_metadata, ("retention.ms", 0, "5"))
    assert cluster_metadata.value_in_force(cluster_metadata.topics["t"], "retention.ms") == ("5", ConfigSource.DYNAMIC_TOPIC)


def test_blocks_of_producer_ids_never_overlap() -> None:
    cluster_metadata = fresh()
    for expected in (1000, 2000, 3000):
        cluster_metadata.replay(cluster_metadata.next_producer_block(1))
        assert cluster_metadata.next_producer_id == expected


def test_the_brokers_last_registration_is_remembered() -> None:
    cluster_metadata = with_topic()
    assert cluster_metadata.broker_epoch == -1
    for broker_id, epoch in ((1, 13), (2, 14), (1, 40)):
        cluster_metadata.replay(RegisterBrokerRecord(broker_id=broker_id, broker_epoch=epoch))
    assert cluster_metadata.broker_epoch == 40


def test_settings_of_a_topic_go_with_it_and_others_are_kept() -> None:
    cluster_metadata = with_topic()
    for kind, name in ((TOPIC_RESOURCE, "t"), (TOPIC_RESOURCE, "not.yet"), (16, "a-client"), (BROKER_RESOURCE, "9")):
        cluster_metadata.replay(ConfigRecord(resource_type=kind, resource_name=name, name="from.elsewhere", value="1"))
    assert cluster_metadata.topics["t"].configs["from.elsewhere"] == "1"
    assert alter_config(cluster_metadata, TOPIC_RESOURCE, "t", [("from.elsewhere", 1, None)]) == [
        ConfigRecord(resource_type=TOPIC_RESOURCE, resource_name="t", name="from.elsewhere", value=None)
    ]
    cluster_metadata.replay(RemoveTopicRecord(topic_id=cluster_metadata.topics["t"].topic_id))
    assert cluster_metadata.configs_set(TOPIC_RESOURCE, "t") == {}
    assert cluster_metadata.configs_set(16, "a-client") == cluster_metadata.configs_set(BROKER_RESOURCE, "9") == {"from.elsewhere": "1"}


def test_partitions_change() -> None:
    cluster_metadata = with_topic()
    topic = cluster_metadata.topics["t"]
    number = len(topic.leaders) - 1
    cluster_metadata.replay(
        PartitionChangeRecord(topic_id=topic.topic_id, partition=number, replicas=(1, 2), directories=(b"x" * 16, b"y" * 16))
    )
    assert (topic.leader_epochs[number], topic.replica_assignments[number]) == (0, ReplicaAssignment((1, 2), (b"x" * 16, b"y" * 16)))
    for leader, epoch in ((-1, 1), (1, 2), (1, 3)):
        cluster_metadata.replay(PartitionChangeRecord(topic_id=topic.topic_id, partition=number, leader=leader))
        assert (topic.leaders[number], topic.leader_epochs[number]) == (leader, epoch)


@pytest.mark.parametrize("number", [-1, 10**6])
def test_an_invalid_partition_number_is_an_error(number: int) -> None:
    cluster_metadata = with_topic()
    topic_id = cluster_metadata.topics["t"].topic_id
    with pytest.raises(LookupError):
        cluster_metadata.replay(PartitionRecord(topic_id=topic_id, partition=number, replicas=(1,), in_sync=(1,), leader=1))
    with pytest.raises(LookupError):
        cluster_metadata.replay(PartitionChangeRecord(topic_id=topic_id, partition=number, leader=1))


@pytest.mark.parametrize(
    ("records", "features", "is_pending"),
    [
        ([ONE], {"one": 1}, False),
        ([BeginTransaction(), ONE], {}, True),
        ([BeginTransaction(), ONE, EndTransaction()], {"one": 1}, False),
        ([BeginTransaction(), ONE, AbortTransaction(), TWO], {"two": 2}, False),
        ([BeginTransaction(), ONE, EndTransaction(), BeginTransaction(), TWO], {"one": 1}, True),
    ],
)
def test_what_counts(records, features, is_pending) -> None:
    cluster_metadata = ClusterMetadata((1,), lambda _name: "")
    replay = MetadataReplay(cluster_metadata)
    for record in records:
        replay.replay(record)
    assert (cluster_metadata.features, replay.is_pending) == (features, is_pending)


def test_a_record_about_an_unknown_topic_is_an_error() -> None:
    with pytest.raises(LookupError):
        MetadataReplay(ClusterMetadata((1,), lambda _name: "")).replay(PartitionChangeRecord(topic_id=bytes(16), partition=0, leader=1))
