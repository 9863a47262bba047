"""The broker's health: judged from samples, logged and listed."""

import asyncio
import json
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.broker.monitoring import health
from ottla.broker.monitoring.health import (
    POINTS,
    SPAN_MS_MIN,
    STALE_MS_MAX,
    TOPICS_MAX,
    WINDOW_MS,
    Growth,
    HealthSnapshot,
    PartitionSize,
    PartitionSnapshot,
    TopicGrowth,
    health_snapshot,
)
from ottla.config import BrokerConfig
from ottla.log.cleaner.health import OVERDUE_MS_MAX, CleanerSnapshot, CleanerState, CleaningSnapshot, PartitionFault
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import NewTopic, Topic
from ottla.protocol.model import Record, TopicPartition

MINUTE = 60_000

HOUR = 3_600_000
NOW = 1_700_000_000_000


def sizes(**bytes_by_topic: int) -> list[PartitionSize]:
    return [PartitionSize(TopicPartition(topic, 0), size) for topic, size in bytes_by_topic.items()]


def test_what_was_there_before_is_no_growth() -> None:
    growth = TopicGrowth()
    growth.add(sizes(a=5_000), 0)
    growth.add(sizes(a=5_100), SPAN_MS_MIN)
    assert growth.of("a", SPAN_MS_MIN) == Growth(100, SPAN_MS_MIN)
    growth.add([*sizes(a=5_100), PartitionSize(TopicPartition("a", 1), 70_000)], 2 * MINUTE)
    assert growth.of("a", 2 * MINUTE) == Growth(100, 2 * MINUTE)


def test_too_short_a_time_says_nothing() -> None:
    growth = TopicGrowth()
    growth.add(sizes(a=0), 0)
    growth.add(sizes(a=100), SPAN_MS_MIN - 1)
    assert growth.of("a", SPAN_MS_MIN - 1) == Growth(0, 0)
    assert growth.of("unknown", 5) == Growth(0, 0)


def test_the_window_slides() -> None:
    growth = TopicGrowth()
    for minute in range(200):
        growth.add(sizes(a=minute * 1000 if minute < 100 else 100_000), minute * MINUTE)
    grown = growth.of("a", 199 * MINUTE)
    assert WINDOW_MS <= grown.over_ms <= WINDOW_MS + WINDOW_MS // POINTS
    assert grown.by_bytes == 0
    growth = TopicGrowth()
    for minute in range(200):
        growth.add(sizes(a=minute * 1000), minute * MINUTE)
    grown = growth.of("a", 199 * MINUTE)
    assert grown.by_bytes * MINUTE == grown.over_ms * 1000


def test_cleaning_shows_as_shrinking() -> None:
    growth = TopicGrowth()
    growth.add(sizes(a=100), 0)
    growth.add(sizes(a=150), MINUTE)
    growth.add(sizes(a=20), 2 * MINUTE)
    assert growth.of("a", 2 * MINUTE) == Growth(-80, 2 * MINUTE)


def test_memory_is_bounded() -> None:
    growth = TopicGrowth()
    for second in range(0, 20_000, 5):
        growth.add(sizes(a=second), second * 1000)
    assert len(growth._points["a"]) <= POINTS + 1


def test_topics_are_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "GROWING_TOPICS_MAX", 2)
    growth = TopicGrowth()
    growth.add(sizes(a=0, b=0, c=0), 0)
    growth.add(sizes(a=1, b=2, c=3), MINUTE)
    assert [growth.of(topic, MINUTE).by_bytes for topic in "abc"] == [1, 2, 0]
    growth.add(sizes(b=2), 2 * MINUTE)
    assert growth.of("a", 2 * MINUTE) == Growth(0, 0)
    growth.add(sizes(a=900, b=2), 3 * MINUTE)
    growth.add(sizes(a=900, b=2), 4 * MINUTE)
    assert growth.of("a", 4 * MINUTE) == Growth(0, MINUTE), "a topic that comes back starts at 0 again"


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


class Case:
    """A broker without a socket or a cleaner, at the test's time."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.now_ms = 1_700_000_000_000
        config = BrokerConfig({"log.cleaner.enable": "false"})
        self.cluster = Components(MemoryFiles(), config, clock=lambda: self.now_ms)
        self.sampler = self.cluster.health
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.cluster.open()

    def topic(self, name: str, policy: str) -> Topic:
        made = self.cluster.topics.create(NewTopic(name=name, partitions=1, configs={"cleanup.policy": policy, "segment.bytes": "1048576"}))
        assert isinstance(made, Topic)
        return made

    def write(self, topic: Topic, size_bytes: int) -> None:
        async def append() -> None:
            partition = self.cluster.partitions.get(topic, 0)
            assert partition is not None
            record = Record(0, self.now_ms, b"k", bytes(size_bytes))
            partition.log.append_records([record], now_ms=self.now_ms)
            partition.log.flush()

        self.runner.run(append())

    def sample(self, after_ms: int = 0) -> Any:
        self.now_ms += after_ms
        self.runner.run(self.sampler.sample())
        return self.sampler.snapshot


@pytest.fixture
def case() -> Any:
    made = Case()
    yield made
    made.runner.run(made.cluster.cleaner.stop())
    made.runner.close()


def test_there_is_a_snapshot_before_the_first_sample(case: Case) -> None:
    assert case.sampler.snapshot.is_healthy
    assert case.sampler.snapshot.log_directory == "memory"


def test_partitions_and_growth(case: Case) -> None:
    plain = case.topic("plain", "delete")
    case.write(plain, 1000)
    first = case.sample()
    (seen,) = first.partitions
    assert (seen.name, seen.is_compacted, seen.log_start_offset, seen.log_end_offset) == (TopicPartition("plain", 0), False, 0, 1)
    case.write(plain, 50_000)
    snapshot = case.sample(10 * MINUTE)
    (topic,) = snapshot.topics
    assert 300_000 <= topic.growth_bytes_per_hour <= 301_000
    assert topic.size_bytes == snapshot.partitions[0].size_bytes


def test_a_cleaner_that_is_missed(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    compacted = case.topic("__consumer_offsets", "compact")
    case.write(compacted, 600_000)
    case.write(compacted, 600_000)
    assert case.sample().is_healthy
    snapshot = case.sample(OVERDUE_MS_MAX + MINUTE)
    assert not snapshot.is_healthy
    said = [finding.sentence for finding in snapshot.findings if finding.is_ill]
    assert any("was not cleaned for 16 min" in sentence for sentence in said)
    case.sample(MINUTE)
    assert caplog.text.count("cleaner is disabled") == 1, "logged when it becomes unhealthy, and not again"
    case.cluster.cleaner.manager._known.clear()
    case.sampler._cleaner.up_to_date_snapshot = lambda: _view(case)  # type: ignore[method-assign]
    case.sample(MINUTE)
    assert "topic __consumer_offsets is healthy again" in caplog.text


async def _view(case: Case) -> Any:
    return case.cluster.cleaner.snapshot()


def test_offline_partitions(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = case.topic("plain", "delete")
    case.write(plain, 10)
    monkeypatch.setattr(PartitionLog, "failure", property(lambda _: "the disk is full"))
    began_ms = case.now_ms
    case.sample()
    snapshot = case.sample(5 * MINUTE)
    assert [(fault.topic, fault.partition, fault.reason, fault.at_ms) for fault in snapshot.offline] == [
        ("__cluster_metadata", 0, "the disk is full", began_ms),
        ("plain", 0, "the disk is full", began_ms),
    ]
    assert not snapshot.is_healthy


def test_an_old_snapshot_is_unhealthy(case: Case) -> None:
    snapshot = case.sample()
    assert snapshot.as_of(case.now_ms + STALE_MS_MAX) is snapshot
    old = snapshot.as_of(case.now_ms + STALE_MS_MAX + 1)
    assert not old.is_healthy
    assert old.findings[0].subject == "broker"


def test_it_samples_again_after_a_failure(case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from ottla.broker.monitoring import health

    monkeypatch.setattr(health, "INTERVAL_S", 0.001)
    plain = case.topic("plain", "delete")
    case.write(plain, 10)

    async def run() -> None:
        real, failed = case.sampler.sample, []

        async def sample() -> None:
            if not failed:
                failed.append(1)
                raise ZeroDivisionError
            await real()

        monkeypatch.setattr(case.sampler, "sample", sample)
        case.sampler.start()
        async with asyncio.timeout(60):
            while not case.sampler.snapshot.partitions:
                await asyncio.sleep(0.001)
        await case.sampler.stop()

    case.runner.run(run())
    assert "it is tried again" in caplog.text
