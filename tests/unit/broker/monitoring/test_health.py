"""A broker's health."""

import json

from ottla.broker.monitoring.health import TOPICS_MAX, HealthSnapshot, PartitionSnapshot, health_snapshot
from ottla.broker.monitoring.topic_growth import Growth
from ottla.log.cleaner.health import CleanerState, PartitionFault
from ottla.log.cleaner.snapshot import CleanerSnapshot, CleaningSnapshot
from ottla.protocol.model import TopicPartition

HOUR = 3_600_000
NOW = 1_700_000_000_000


def part(topic: str, number: int = 0, size_bytes: int = 100, *, is_compacted: bool = False) -> PartitionSnapshot:
    return PartitionSnapshot(TopicPartition(topic, number), is_compacted, size_bytes, 5, 9)


def snapshot_of(cleaner: CleanerSnapshot, *partitions: PartitionSnapshot, offline: tuple[PartitionFault, ...] = ()) -> HealthSnapshot:
    return health_snapshot(
        cleaner=cleaner, partitions=partitions, offline=offline, growth=lambda _: Growth(120, HOUR), log_directory="/data", now_ms=NOW
    )


def test_topics_add_up_their_partitions() -> None:
    cleanings = {
        TopicPartition("c", 0): CleaningSnapshot(60, 50, 0.25, None, NOW - 3 * HOUR),
        TopicPartition("c", 1): CleaningSnapshot(40, 20, 0.75, NOW - HOUR, NOW - 4 * HOUR),
    }
    cleaner = CleanerSnapshot(is_enabled=True, threads=1, looked_ms=NOW, partitions=cleanings)
    snapshot = snapshot_of(cleaner, part("plain", size_bytes=5000), part("c", 0, is_compacted=True), part("c", 1, is_compacted=True))
    compacted, plain = snapshot.topics
    assert (compacted.name, compacted.partitions, compacted.size_bytes) == ("c", 2, 200)
    assert (compacted.dirty_bytes, compacted.cleanable_bytes, compacted.dirty_ratio) == (100, 70, 0.75)
    assert (compacted.overdue_ms, compacted.since_cleaned_ms) == (HOUR, 3 * HOUR)
    assert compacted.growth_bytes_per_hour == 120
    assert (plain.is_compacted, plain.dirty_bytes, plain.overdue_ms) == (False, 0, 0)
    assert not snapshot.is_healthy
    assert "was not cleaned for 3 h" in snapshot.findings[0].sentence


def test_the_state_of_the_cleaner() -> None:
    assert CleanerSnapshot(is_enabled=False).state is CleanerState.OFF
    assert CleanerSnapshot(is_enabled=True, threads=2, dead_threads=1).state is CleanerState.RUNNING
    assert CleanerSnapshot(is_enabled=True, threads=2, dead_threads=2).state is CleanerState.DEAD
    assert snapshot_of(CleanerSnapshot(is_enabled=True, threads=1, looked_ms=NOW - 10)).is_healthy
    assert not snapshot_of(CleanerSnapshot(is_enabled=True, threads=2, dead_threads=1)).is_healthy


def test_a_cleaner_at_work_is_not_idle() -> None:
    working = CleanerSnapshot(is_enabled=True, threads=1, looked_ms=NOW - 10 * HOUR, at_work=(TopicPartition("c", 0),))
    assert working.facts(NOW).idle_ms == 0
    assert CleanerSnapshot(is_enabled=True, threads=1, looked_ms=NOW - HOUR).facts(NOW).idle_ms == HOUR
    assert CleanerSnapshot(is_enabled=True, threads=1, looked_ms=NOW + HOUR, cleaned_ms=NOW + 5).facts(NOW).idle_ms == 0


def test_faults_are_findings() -> None:
    cleaner = CleanerSnapshot(is_enabled=True, threads=1, uncleanable=(PartitionFault("c", 0, "the batch at offset 3 is damaged", NOW),))
    snapshot = snapshot_of(cleaner, offline=(PartitionFault("d", 1, "the disk is full", NOW),))
    assert [finding.subject for finding in snapshot.findings if finding.is_ill] == ["partition c-0", "partition d-1"]


def test_very_many_topics_are_bounded() -> None:
    snapshot = snapshot_of(
        CleanerSnapshot(is_enabled=True),
        *(part(f"t{number}", size_bytes=number) for number in range(TOPICS_MAX + 5)),
        part("c", is_compacted=True),
    )
    assert len(snapshot.topics) == TOPICS_MAX
    assert snapshot.topics_left_out == 6
    assert [topic.name for topic in snapshot.topics[:2]] == ["c", f"t{TOPICS_MAX + 4}"]


def test_the_snapshot_as_json() -> None:
    name = TopicPartition("c", 0)
    cleaner = CleanerSnapshot(
        is_enabled=True,
        threads=1,
        looked_ms=NOW,
        at_work=(name,),
        uncleanable=(PartitionFault("u", 7, "damaged", 5),),
        partitions={name: CleaningSnapshot(60, 50, 0.25, None, None)},
    )
    as_json = json.loads(json.dumps(snapshot_of(cleaner, part("c", is_compacted=True)).to_json()))
    assert as_json["healthy"] is False
    assert as_json["cleaner"]["state"] == "running"
    assert as_json["cleaner"]["at_work"] == ["c-0"]
    assert as_json["cleaner"]["uncleanable"] == [{"topic": "u", "partition": 7, "reason": "damaged", "at_ms": 5}]
    assert as_json["topics"][0]["name"] == "c"
    assert as_json["topics"][0]["growth_bytes_per_hour"] == 120
    assert as_json["findings"][0]["is_ill"] is True
    assert "partitions" not in as_json["cleaner"]
