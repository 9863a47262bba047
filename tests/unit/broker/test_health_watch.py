"""The picture is drawn from the live broker, and the log says what became ill."""

import asyncio
from typing import Any

import pytest

from ottla.broker.cluster_state import ClusterState
from ottla.broker.health import STALE_MS_MAX
from ottla.core.catalogue.catalogue import NewTopic, Topic
from ottla.core.cleaning.health import OVERDUE_MS_MAX
from ottla.core.config import BrokerConfig
from ottla.core.model import Record, TopicPartition
from ottla.storage.memory_files import MemoryFiles
from ottla.storage.partition_log import PartitionLog

MINUTE = 60_000


class Case:
    """A broker without a socket or a cleaner, at the test's time."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.now_ms = 1_700_000_000_000
        config = BrokerConfig({"log.cleaner.enable": "false"})
        self.cluster = ClusterState(MemoryFiles(), config, clock=lambda: self.now_ms)
        self.watch = self.cluster.health
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

    def look(self, after_ms: int = 0) -> Any:
        self.now_ms += after_ms
        self.runner.run(self.watch.look())
        return self.watch.view


@pytest.fixture
def case() -> Any:
    made = Case()
    yield made
    made.runner.run(made.cluster.cleaner.stop())
    made.runner.close()


def test_before_the_first_look_there_is_a_picture(case: Case) -> None:
    assert case.watch.view.is_healthy
    assert case.watch.view.log_directory == "memory"


def test_partitions_and_growth(case: Case) -> None:
    plain = case.topic("plain", "delete")
    case.write(plain, 1000)
    first = case.look()
    (seen,) = first.partitions
    assert (seen.name, seen.is_compacted, seen.log_start_offset, seen.log_end_offset) == (TopicPartition("plain", 0), False, 0, 1)
    case.write(plain, 50_000)
    view = case.look(10 * MINUTE)
    (topic,) = view.topics
    assert 300_000 <= topic.growth_bytes_per_hour <= 301_000
    assert topic.size_bytes == view.partitions[0].size_bytes


def test_a_cleaner_that_is_missed(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    compacted = case.topic("__consumer_offsets", "compact")
    case.write(compacted, 600_000)
    case.write(compacted, 600_000)
    assert case.look().is_healthy
    view = case.look(OVERDUE_MS_MAX + MINUTE)
    assert not view.is_healthy
    said = [finding.sentence for finding in view.findings if finding.is_ill]
    assert any("nothing of it was cleaned for 16 min" in sentence for sentence in said)
    case.look(MINUTE)
    assert caplog.text.count("switched off") == 1, "said when it becomes ill, and not again"
    case.cluster.cleaner._known.clear()
    case.watch._cleaner.up_to_date_view = lambda: _view(case)  # type: ignore[method-assign]
    case.look(MINUTE)
    assert "topic __consumer_offsets is well again" in caplog.text


async def _view(case: Case) -> Any:
    return case.cluster.cleaner.view()


def test_offline_partitions(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    plain = case.topic("plain", "delete")
    case.write(plain, 10)
    monkeypatch.setattr(PartitionLog, "failure", property(lambda _: "the disk is full"))
    began_ms = case.now_ms
    case.look()
    view = case.look(5 * MINUTE)
    assert [(fault.topic, fault.partition, fault.reason, fault.at_ms) for fault in view.offline] == [
        ("__cluster_metadata", 0, "the disk is full", began_ms),
        ("plain", 0, "the disk is full", began_ms),
    ]
    assert not view.is_healthy


def test_a_picture_that_is_old_is_ill(case: Case) -> None:
    view = case.look()
    assert view.seen_at(case.now_ms + STALE_MS_MAX) is view
    old = view.seen_at(case.now_ms + STALE_MS_MAX + 1)
    assert not old.is_healthy
    assert old.findings[0].subject == "broker"


def test_it_looks_by_itself_and_survives_a_failure(case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from ottla.broker import health_watch

    monkeypatch.setattr(health_watch, "INTERVAL_S", 0.001)
    plain = case.topic("plain", "delete")
    case.write(plain, 10)

    async def run() -> None:
        real, failed = case.watch.look, []

        async def look() -> None:
            if not failed:
                failed.append(1)
                raise ZeroDivisionError
            await real()

        monkeypatch.setattr(case.watch, "look", look)
        case.watch.begin()
        async with asyncio.timeout(5):
            while not case.watch.view.partitions:
                await asyncio.sleep(0.001)
        await case.watch.stop()

    case.runner.run(run())
    assert "it is tried again" in caplog.text
