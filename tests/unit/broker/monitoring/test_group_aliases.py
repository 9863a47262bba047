"""The names and labels that other tools' dashboards ask for."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.monitoring import group_aliases
from ottla.broker.monitoring.group_aliases import alias_metrics
from ottla.broker.monitoring.group_snapshot import GroupRow, GroupsSnapshot
from ottla.broker.monitoring.health import PartitionSnapshot
from ottla.broker.monitoring.metrics_pages import exposition
from ottla.protocol.model import TopicPartition

PARTITIONS = [PartitionSnapshot(TopicPartition("t", 0), False, 1_000, 3, 45)]


@pytest.fixture
def snapshot(group_row: GroupRow) -> GroupsSnapshot:
    return GroupsSnapshot(cluster_id="c", groups=(group_row,), topics=(("t", 4),))


def samples(snapshot: GroupsSnapshot, partitions: Any, prefix: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(exposition([lambda: alias_metrics(snapshot, partitions)])().decode()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            if sample.name.startswith(prefix):
                found[f"{sample.name} {labels}" if labels else sample.name] = sample.value
    return found


def test_burrow(snapshot: GroupsSnapshot) -> None:
    assert samples(snapshot, PARTITIONS, "burrow_kafka_") == {
        "burrow_kafka_consumer_status cluster=c,consumer_group=g": 3,
        "burrow_kafka_consumer_lag_total cluster=c,consumer_group=g": 60,
        "burrow_kafka_consumer_partition_lag cluster=c,consumer_group=g,partition=0,topic=t": 40,
        "burrow_kafka_consumer_current_offset cluster=c,consumer_group=g,partition=0,topic=t": 5,
        "burrow_kafka_consumer_current_offset cluster=c,consumer_group=g,partition=1,topic=gone": 5,
        "burrow_kafka_topic_partition_status cluster=c,consumer_group=g,partition=0,topic=t": 5,
        "burrow_kafka_topic_partition_status cluster=c,consumer_group=g,partition=1,topic=gone": 1,
        "burrow_kafka_topic_partition_offset cluster=c,partition=0,topic=t": 45,
    }


def test_kminion(snapshot: GroupsSnapshot) -> None:
    prefix = "kminion_kafka_consumer_group"
    assert samples(snapshot, PARTITIONS, "kminion_") == {
        "kminion_exporter_up": 1,
        f"{prefix}_info coordinator_id=2,group_id=g,protocol=range,protocol_type=consumer,state=Stable": 1,
        f"{prefix}_members group_id=g": 3,
        f"{prefix}_empty_members group_id=g": 1,
        f"{prefix}_topic_members group_id=g,topic_name=t": 2,
        f"{prefix}_topic_assigned_partitions group_id=g,topic_name=t": 4,
        f"{prefix}_topic_offset_sum group_id=g,topic_name=t": 25,
        f"{prefix}_topic_lag group_id=g,topic_name=t": 60,
        f"{prefix}_topic_partition_lag group_id=g,partition_id=0,topic_name=t": 40,
        f"{prefix}_offset_commits_total group_id=g": 11,
    }


def test_kafka_lag_exporter(snapshot: GroupsSnapshot) -> None:
    prefix, owner = "kafka_consumergroup_group", "client_id=c1,cluster_name=c,consumer_id=m1,group=g,member_host=/127.0.0.1"
    no_owner = "client_id=,cluster_name=c,consumer_id=,group=g,member_host="
    assert samples(snapshot, PARTITIONS, f"{prefix}_") == {
        f"{prefix}_offset {owner},partition=0,topic=t": 5,
        f"{prefix}_offset {no_owner},partition=1,topic=gone": 5,
        f"{prefix}_lag {owner},partition=0,topic=t": 40,
        f"{prefix}_max_lag cluster_name=c,group=g": 40,
        f"{prefix}_sum_lag cluster_name=c,group=g": 60,
        f"{prefix}_topic_sum_lag cluster_name=c,group=g,topic=t": 60,
    }
    assert samples(snapshot, PARTITIONS, "kafka_partition_") == {
        "kafka_partition_latest_offset cluster_name=c,partition=0,topic=t": 45,
        "kafka_partition_earliest_offset cluster_name=c,partition=0,topic=t": 3,
    }


def test_kafka_exporter(snapshot: GroupsSnapshot) -> None:
    found = samples(snapshot, PARTITIONS, "kafka_consumergroup_") | samples(snapshot, PARTITIONS, "kafka_topic_")
    assert {name: value for name, value in found.items() if not name.startswith("kafka_consumergroup_group_")} == {
        "kafka_consumergroup_members consumergroup=g": 3,
        "kafka_consumergroup_lag consumergroup=g,partition=0,topic=t": 40,
        "kafka_consumergroup_lag_sum consumergroup=g,topic=t": 60,
        "kafka_consumergroup_current_offset consumergroup=g,partition=0,topic=t": 5,
        "kafka_consumergroup_current_offset consumergroup=g,partition=1,topic=gone": 5,
        "kafka_consumergroup_current_offset_sum consumergroup=g,topic=t": 25,
        "kafka_topic_partitions topic=t": 4,
        "kafka_topic_partition_current_offset partition=0,topic=t": 45,
        "kafka_topic_partition_oldest_offset partition=0,topic=t": 3,
    }


def test_the_number_of_partitions_has_a_bound(snapshot: GroupsSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(group_aliases, "PARTITIONS_MAX", 1)
    two = [PartitionSnapshot(TopicPartition("small", 0), False, 10, 0, 1), *PARTITIONS]
    assert list(samples(snapshot, two, "kafka_partition_latest")) == ["kafka_partition_latest_offset cluster_name=c,partition=0,topic=t"]
