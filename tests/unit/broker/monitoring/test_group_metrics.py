"""The groups' metrics, by our own names and by Kafka's: every one of them, as a parser of Prometheus' format reads it."""

from dataclasses import replace
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ottla.broker.monitoring.group_metrics import group_metrics, planned
from ottla.broker.monitoring.group_snapshot import BrokerRow, Durations, EventCounts, GroupRow, GroupsSnapshot
from ottla.broker.monitoring.metrics_pages import exposition
from ottla.groups.events import TriggerCode

NOW = 1_700_000_000_000
COUNTS = EventCounts(
    rebalances={"JOIN_NEW": 2, "EXPIRE_HEARTBEAT": 1},
    coalesced={"LEAVE": 4},
    outcomes={"completed": 3},
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
    coordinators={"loading": 1, "active": 24},
    offset_commits=12,
)


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
        **{f"{durations}_bucket le={bound},phase=sync": 0 for bound in (0.1, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0, 60.0, 300.0, "+Inf")},
        f"{durations}_count phase=sync": 0,
        f"{durations}_sum phase=sync": 0,
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
        f"{metrics}_num_partitions broker=2,state=loading": 1,
        f"{metrics}_num_partitions broker=2,state=active": 24,
        f"{metrics}_offset_commit_count broker=2": 12,
        f"{metrics}_offset_expiration_count": 7,
        f"{metrics}_group_completed_rebalance_count": 3,
    }


def test_a_trigger_that_leaves_open_whether_it_was_planned_is_unknown() -> None:
    labels = {code: planned(code.value) for code in TriggerCode}
    assert {code for code, label in labels.items() if label == "true"} == {TriggerCode.ADMIN_REMOVE, TriggerCode.METADATA_UPDATE}
    starting = {TriggerCode.ASSIGNOR_CHANGE, TriggerCode.STATIC_REJOIN, TriggerCode.STATIC_FENCED}
    unknown = {TriggerCode.JOIN_NEW, TriggerCode.LEAVE, TriggerCode.LEADER_REJOIN, *starting}
    assert {code for code, label in labels.items() if label == "unknown"} == unknown


def test_an_empty_snapshot() -> None:
    assert samples(group_metrics(GroupsSnapshot(), NOW))["ottla_groups_left_out"] == 0
