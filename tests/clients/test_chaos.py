"""Real clients under chaos on three brokers: consumers of four libraries join, leave, freeze and die; coordinators and leaders move.

OTTLA_CHAOS_SECONDS (30) and OTTLA_CHAOS_SEEDS (one) make it longer: `make soak` runs ten minutes.
"""

import os
from pathlib import Path

import pytest

from ottla.broker import Cluster
from ottla.groups.events import GroupEvent
from ottla.testing.raw_client import create_topic
from trials.chaos.chaos import PARTITIONS, SETTINGS, TOPIC, ClusterChaos
from trials.harness.oracle import lost, owned_twice, without_cause

SECONDS = float(os.environ.get("OTTLA_CHAOS_SECONDS", "30"))
SEEDS = [int(seed) for seed in os.environ.get("OTTLA_CHAOS_SEEDS", "1").split(",")]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_record_is_lost_no_partition_has_two_owners_and_every_rebalance_has_a_cause(seed: int, tmp_path: Path) -> None:
    events: list[GroupEvent] = []
    with Cluster(brokers=3, config=SETTINGS, on_group_event=events.append) as cluster:
        create_topic(cluster.address(1), TOPIC, PARTITIONS, replicas=3)
        chaos = ClusterChaos(cluster, seed, tmp_path)
        try:
            chaos.run(SECONDS)
            chaos.drain()
        finally:
            chaos.members.close()
    journals = chaos.members.journals()
    rounds = [event for event in events if event.kind == "sync_completed"]
    records = len(chaos.ledger.acknowledged)
    print(f"seed {seed}: {chaos.actions}, {len(rounds)} rebalances, {records} records, {len(journals)} consumers")
    assert len(rounds) > SECONDS / 20, "a chaos with hardly a rebalance shows nothing"
    processing = {consumer.library for consumer, read in zip(chaos.members.started, journals, strict=True) if read.processed}
    assert processing >= {"confluent", "aiokafka", "ottla"}
    assert lost(chaos.ledger.acknowledged, chaos.members.processed()) == []
    assert [read.misplaced for read in journals if read.misplaced] == []
    assert owned_twice(events) == []
    assert without_cause(events) == []
