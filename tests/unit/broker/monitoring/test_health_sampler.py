"""The snapshot is taken from a live broker; what became unhealthy is logged."""

import asyncio
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.broker.monitoring.health import STALE_MS_MAX
from ottla.config import BrokerConfig
from ottla.log.cleaner.health import OVERDUE_MS_MAX
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.metadata.topics import NewTopic, Topic
from ottla.protocol.model import Record, TopicPartition

MINUTE = 60_000


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
    from ottla.broker.monitoring import health_sampler

    monkeypatch.setattr(health_sampler, "INTERVAL_S", 0.001)
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
