"""Metrics of groups, under Kafka's names and those of other tools."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.monitoring.group_metrics import alias_metrics, group_metrics, planned
from ottla.broker.monitoring.group_snapshot import BrokerRow, Durations, EventCounts, GroupRow, GroupsSnapshot
from ottla.broker.monitoring.health import PartitionSnapshot
from ottla.broker.monitoring.metrics_server import exposition
from ottla.groups.events import TriggerCode
from ottla.protocol.model import TopicPartition

NOW = 1_700_000_000_000
COUNTS = EventCounts(
    rebalances={"JOIN_NEW": 2, "EXPIRE_HEARTBEAT": 1},
    coalesced={"LEAVE": 4},
    outcomes={"completed": 3},
    classic_completed=3,
    static_replaced=5,
    static_fenced=6,
    offsets_expired=7,
    durations={"join": Durations().plus(3.0).plus(0.5)},
)
BROKER = BrokerRow(
    broker_id=2,
    groups=3,
    offsets=4,
    by_state={"Empty": 1, "PreparingRebalance": 0, "CompletingRebalance": 0, "Stable": 2, "Dead": 0},
    consumer_groups={"Empty": 0, "Assigning": 1, "Reconciling": 0, "Stable": 4, "Dead": 0},
    coordinators={"loading": 1, "active": 24},
    offset_commits=12,
)

PARTITIONS = [PartitionSnapshot(TopicPartition("t", 0), False, 1_000, 3, 45)]


@pytest.fixture
def snapshot(group_row: GroupRow) -> GroupsSnapshot:
    group = replace(group_row, group_id='g"\n', offsets_left_out=1, counts=COUNTS)
    return GroupsSnapshot(
        at_ms=NOW, took_s=0.25, cluster_id="c", brokers=(BROKER,), groups=(group,), groups_left_out=8, counts=COUNTS, topics=(("t", 2),)
    )


def samples(metrics: Any) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(exposition([lambda: metrics])().decode()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            found[f"{sample.name} {labels}" if labels else sample.name] = sample.value
    return found


def test_metrics_of_each_group_have_its_id_and_the_cause(snapshot: GroupsSnapshot) -> None:
    g = 'group=g"\n'
    found = samples(group_metrics(snapshot, NOW + 2_000))
    assert {name: value for name, value in found.items() if name.startswith("ottla_group_")} == {
        "ottla_group_offsets_left_out": 1,
        f"ottla_group_info coordinator_id=2,{g},protocol=range,protocol_type=consumer": 1,
        f"ottla_group_state {g},state=Stable": 1,
        **{f"ottla_group_state {g},state={state}": 0 for state in ("Empty", "PreparingRebalance", "CompletingRebalance", "Dead")},
        f"ottla_group_generation {g}": 9,
        f"ottla_group_members {g}": 3,
        f"ottla_group_static_members {g}": 2,
        f"ottla_group_empty_members {g}": 1,
        f"ottla_group_lag_sum {g}": 60,
        f"ottla_group_lag_max {g}": 40,
        f"ottla_group_rebalances_total cause=JOIN_NEW,{g},planned=unknown": 2,
        f"ottla_group_rebalances_total cause=EXPIRE_HEARTBEAT,{g},planned=false": 1,
        f"ottla_group_coalesced_triggers_total cause=LEAVE,{g},planned=unknown": 4,
        f"ottla_group_rebalances_ended_total {g},outcome=completed": 3,
        f"ottla_group_rebalance_duration_seconds_count {g},phase=join": 2,
        f"ottla_group_rebalance_duration_seconds_sum {g},phase=join": 3.5,
        f"ottla_group_static_rebalances_avoided_total {g}": 5,
        f"ottla_group_static_fenced_total {g}": 6,
        f"ottla_group_offset_commits_total {g}": 11,
        f"ottla_group_offsets_expired_total {g}": 7,
        f"ottla_group_lag {g},partition=0,topic=t": 40,
        f"ottla_group_committed_offset {g},partition=0,topic=t": 5,
        f"ottla_group_committed_offset {g},partition=1,topic=gone": 5,
    }


def test_metrics_of_all_groups(snapshot: GroupsSnapshot) -> None:
    found = samples(group_metrics(snapshot, NOW + 2_000))
    durations = "ottla_rebalance_duration_seconds"
    assert {name: value for name, value in found.items() if name.startswith("ottla_") and not name.startswith("ottla_group_")} == {
        "ottla_groups_age_seconds": 2,
        "ottla_groups_look_seconds": 0.25,
        "ottla_groups_left_out": 8,
        "ottla_rebalances_total cause=JOIN_NEW,planned=unknown": 2,
        "ottla_rebalances_total cause=EXPIRE_HEARTBEAT,planned=false": 1,
        "ottla_coalesced_triggers_total cause=LEAVE,planned=unknown": 4,
        "ottla_rebalances_ended_total outcome=completed": 3,
        "ottla_static_rebalances_avoided_total": 5,
        "ottla_offsets_expired_total": 7,
        **{f"{durations}_bucket le={bound},phase=join": 0 for bound in (0.1,)},
        **{f"{durations}_bucket le={bound},phase=join": 1 for bound in (0.5, 1.0)},
        **{f"{durations}_bucket le={bound},phase=join": 2 for bound in (3.0, 5.0, 10.0, 30.0, 60.0, 300.0, "+Inf")},
        f"{durations}_count phase=join": 2,
        f"{durations}_sum phase=join": 3.5,
        **{
            f"{durations}_{name}phase={phase}": 0
            for phase in ("sync", "assign", "revoke", "reconcile")
            for name in (*(f"bucket le={bound}," for bound in (0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, "+Inf")), "count ", "sum ")
        },
    }


@pytest.mark.conformance("GroupMetadataManagerTest.scala.testMetrics")
def test_kafkas_names(snapshot: GroupsSnapshot) -> None:
    found = samples(group_metrics(snapshot, NOW))
    manager, metrics = "kafka_coordinator_group_groupmetadatamanager", "kafka_server_group_coordinator_metrics"
    assert {name: value for name, value in found.items() if name.startswith("kafka_")} == {
        f"{manager}_numoffsets broker=2": 4,
        f"{manager}_numgroups broker=2": 3,
        f"{manager}_numgroupsempty broker=2": 1,
        f"{manager}_numgroupspreparingrebalance broker=2": 0,
        f"{manager}_numgroupscompletingrebalance broker=2": 0,
        f"{manager}_numgroupsstable broker=2": 2,
        f"{manager}_numgroupsdead broker=2": 0,
        f"{metrics}_group_count broker=2,protocol=classic": 3,
        f"{metrics}_group_count broker=2,protocol=consumer": 5,
        f"{metrics}_consumer_group_count broker=2,state=empty": 0,
        f"{metrics}_consumer_group_count broker=2,state=assigning": 1,
        f"{metrics}_consumer_group_count broker=2,state=reconciling": 0,
        f"{metrics}_consumer_group_count broker=2,state=stable": 4,
        f"{metrics}_consumer_group_count broker=2,state=dead": 0,
        f"{metrics}_consumer_group_rebalance_count": 0,
        f"{metrics}_num_partitions broker=2,state=loading": 1,
        f"{metrics}_num_partitions broker=2,state=active": 24,
        f"{metrics}_offset_commit_count broker=2": 12,
        f"{metrics}_offset_expiration_count": 7,
        f"{metrics}_group_completed_rebalance_count": 3,
    }


def test_a_trigger_that_leaves_open_whether_it_was_planned_is_unknown() -> None:
    labels = {code: planned(code.value) for code in TriggerCode}
    assert {code for code, label in labels.items() if label == "true"} == {
        TriggerCode.ADMIN_REMOVE,
        TriggerCode.METADATA_UPDATE,
        TriggerCode.SUBSCRIPTION_CHANGE,
        TriggerCode.REGEX_CHANGE,
        TriggerCode.TOPIC_CHANGE,
    }
    starting = {TriggerCode.ASSIGNOR_CHANGE, TriggerCode.STATIC_REJOIN, TriggerCode.STATIC_FENCED}
    unknown = {TriggerCode.JOIN_NEW, TriggerCode.LEAVE, TriggerCode.LEADER_REJOIN, *starting}
    assert {code for code, label in labels.items() if label == "unknown"} == unknown


def test_an_empty_snapshot() -> None:
    assert samples(group_metrics(GroupsSnapshot(), NOW))["ottla_groups_left_out"] == 0


@pytest.fixture
def plain_snapshot(group_row: GroupRow) -> GroupsSnapshot:
    return GroupsSnapshot(cluster_id="c", groups=(group_row,), topics=(("t", 4),))


def alias_samples(plain_snapshot: GroupsSnapshot, partitions: Any, prefix: str) -> dict[str, float]:
    found = {}
    for family in text_string_to_metric_families(exposition([lambda: alias_metrics(plain_snapshot, partitions)])().decode()):
        assert family.documentation
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sorted(sample.labels.items()))
            if sample.name.startswith(prefix):
                found[f"{sample.name} {labels}" if labels else sample.name] = sample.value
    return found


def test_burrow(plain_snapshot: GroupsSnapshot) -> None:
    assert alias_samples(plain_snapshot, PARTITIONS, "burrow_kafka_") == {
        "burrow_kafka_consumer_status cluster=c,consumer_group=g": 3,
        "burrow_kafka_consumer_lag_total cluster=c,consumer_group=g": 60,
        "burrow_kafka_consumer_partition_lag cluster=c,consumer_group=g,partition=0,topic=t": 40,
        "burrow_kafka_consumer_current_offset cluster=c,consumer_group=g,partition=0,topic=t": 5,
        "burrow_kafka_consumer_current_offset cluster=c,consumer_group=g,partition=1,topic=gone": 5,
        "burrow_kafka_topic_partition_status cluster=c,consumer_group=g,partition=0,topic=t": 5,
        "burrow_kafka_topic_partition_status cluster=c,consumer_group=g,partition=1,topic=gone": 1,
        "burrow_kafka_topic_partition_offset cluster=c,partition=0,topic=t": 45,
    }


def test_kminion(plain_snapshot: GroupsSnapshot) -> None:
    prefix = "kminion_kafka_consumer_group"
    assert alias_samples(plain_snapshot, PARTITIONS, "kminion_") == {
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


def test_kafka_lag_exporter(plain_snapshot: GroupsSnapshot) -> None:
    prefix, owner = "kafka_consumergroup_group", "client_id=c1,cluster_name=c,consumer_id=m1,group=g,member_host=/127.0.0.1"
    no_owner = "client_id=,cluster_name=c,consumer_id=,group=g,member_host="
    assert alias_samples(plain_snapshot, PARTITIONS, f"{prefix}_") == {
        f"{prefix}_offset {owner},partition=0,topic=t": 5,
        f"{prefix}_offset {no_owner},partition=1,topic=gone": 5,
        f"{prefix}_lag {owner},partition=0,topic=t": 40,
        f"{prefix}_max_lag cluster_name=c,group=g": 40,
        f"{prefix}_sum_lag cluster_name=c,group=g": 60,
        f"{prefix}_topic_sum_lag cluster_name=c,group=g,topic=t": 60,
    }
    assert alias_samples(plain_snapshot, PARTITIONS, "kafka_partition_") == {
        "kafka_partition_latest_offset cluster_name=c,partition=0,topic=t": 45,
        "kafka_partition_earliest_offset cluster_name=c,partition=0,topic=t": 3,
    }


def test_kafka_exporter(plain_snapshot: GroupsSnapshot) -> None:
    found = alias_samples(plain_snapshot, PARTITIONS, "kafka_consumergroup_") | alias_samples(plain_snapshot, PARTITIONS, "kafka_topic_")
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


def test_the_number_of_partitions_has_a_bound(plain_snapshot: GroupsSnapshot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.broker.monitoring.group_metrics.PARTITIONS_MAX", 1)
    two = [PartitionSnapshot(TopicPartition("small", 0), False, 10, 0, 1), *PARTITIONS]
    assert list(alias_samples(plain_snapshot, two, "kafka_partition_latest")) == [
        "kafka_partition_latest_offset cluster_name=c,partition=0,topic=t"
    ]
