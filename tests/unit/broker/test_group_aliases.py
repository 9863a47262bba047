"""The names and labels that other tools' dashboards ask for."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker import group_aliases as room
from ottla.broker.group_aliases import alias_metrics
from ottla.broker.group_picture import EventCounts, GroupRow, GroupsPicture, OffsetRow, TopicRow
from ottla.broker.health import PartitionView
from ottla.broker.metrics import exposition
from ottla.core.diagnosis.burrow import Status
from ottla.core.model import TopicPartition

GROUP = GroupRow(
    group_id="g",
    broker_id=2,
    state="Stable",
    generation=9,
    protocol_type="consumer",
    protocol="range",
    members=3,
    static_members=2,
    empty_members=1,
    lag_sum=60,
    lag_max=40,
    offset_commits=11,
    offsets=(
        OffsetRow("t", 0, 5, 0, 45, 40, ("m1", "c1", "/127.0.0.1"), Status.STALL),
        OffsetRow("gone", 1, 5, None, None, None, ("", "", ""), Status.OK),
    ),
    offsets_left_out=0,
    by_topic={"t": (25, 60)},
    topics=(TopicRow("t", 2, 4),),
    status=Status.ERR,
    counts=EventCounts(),
)
PICTURE = GroupsPicture(cluster_id="c", groups=(GROUP,), topics=(("t", 4),))
PARTITIONS = [PartitionView(TopicPartition("t", 0), False, 1_000, 3, 45)]


def samples(picture: GroupsPicture, partitions: Any, prefix: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(exposition([lambda: alias_metrics(picture, partitions)])().decode()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            if sample.name.startswith(prefix):
                found[f"{sample.name} {labels}" if labels else sample.name] = sample.value
    return found


def test_burrow() -> None:
    assert samples(PICTURE, PARTITIONS, "burrow_kafka_") == {
        "burrow_kafka_consumer_status cluster=c,consumer_group=g": 3,
        "burrow_kafka_consumer_lag_total cluster=c,consumer_group=g": 60,
        "burrow_kafka_consumer_partition_lag cluster=c,consumer_group=g,partition=0,topic=t": 40,
        "burrow_kafka_consumer_current_offset cluster=c,consumer_group=g,partition=0,topic=t": 5,
        "burrow_kafka_consumer_current_offset cluster=c,consumer_group=g,partition=1,topic=gone": 5,
        "burrow_kafka_topic_partition_status cluster=c,consumer_group=g,partition=0,topic=t": 5,
        "burrow_kafka_topic_partition_status cluster=c,consumer_group=g,partition=1,topic=gone": 1,
        "burrow_kafka_topic_partition_offset cluster=c,partition=0,topic=t": 45,
    }


def test_kminion() -> None:
    prefix = "kminion_kafka_consumer_group"
    assert samples(PICTURE, PARTITIONS, "kminion_") == {
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


def test_kafka_lag_exporter() -> None:
    prefix, owner = "kafka_consumergroup_group", "client_id=c1,cluster_name=c,consumer_id=m1,group=g,member_host=/127.0.0.1"
    nobody = "client_id=,cluster_name=c,consumer_id=,group=g,member_host="
    assert samples(PICTURE, PARTITIONS, f"{prefix}_") == {
        f"{prefix}_offset {owner},partition=0,topic=t": 5,
        f"{prefix}_offset {nobody},partition=1,topic=gone": 5,
        f"{prefix}_lag {owner},partition=0,topic=t": 40,
        f"{prefix}_max_lag cluster_name=c,group=g": 40,
        f"{prefix}_sum_lag cluster_name=c,group=g": 60,
        f"{prefix}_topic_sum_lag cluster_name=c,group=g,topic=t": 60,
    }
    assert samples(PICTURE, PARTITIONS, "kafka_partition_") == {
        "kafka_partition_latest_offset cluster_name=c,partition=0,topic=t": 45,
        "kafka_partition_earliest_offset cluster_name=c,partition=0,topic=t": 3,
    }


def test_kafka_exporter() -> None:
    found = samples(PICTURE, PARTITIONS, "kafka_consumergroup_") | samples(PICTURE, PARTITIONS, "kafka_topic_")
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


def test_the_number_of_partitions_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "PARTITIONS_MAX", 1)
    two = [PartitionView(TopicPartition("small", 0), False, 10, 0, 1), *PARTITIONS]
    assert list(samples(PICTURE, two, "kafka_partition_latest")) == ["kafka_partition_latest_offset cluster_name=c,partition=0,topic=t"]
