"""Which log is cleaned next: the dirtiest that is due, by one thread at a time, and none that failed lately."""

import asyncio
import dataclasses
from collections.abc import Iterator

import pytest

from ottla.broker.composition import Components
from ottla.broker.partitions.cleaner_manager import UNCLEANABLE_MS, CleanerCheckpoint, LogCleanerManager
from ottla.broker.partitions.partition import Partition
from ottla.config import BrokerConfig
from ottla.log.checkpoints import CLEANER_FILE
from ottla.log.cleaner.health import CleanerSnapshot, CleanerState
from ottla.log.file_system import MemoryFiles
from ottla.metadata.topics import NewTopic, Topic
from ottla.protocol.model import Record, TopicPartition

SEGMENT_BYTES = 2000
A, B = TopicPartition("a", 0), TopicPartition("b", 0)


class Case:
    """Two compacted logs, `b` with more dirty data than `a`; the cleaner itself does not run."""

    def __init__(self) -> None:
        self.runner = asyncio.Runner()
        self.now_ms = 1_700_000_000_000
        self.cluster = Components(MemoryFiles(), BrokerConfig({"log.cleaner.enable": "false"}), clock=lambda: self.now_ms)
        self.manager: LogCleanerManager = self.cluster.cleaner.manager
        self.runner.run(self._open())

    async def _open(self) -> None:
        self.cluster.open()
        self.cluster.cleaner.start()
        for name, segments in (("a", 2), ("b", 4)):
            self.cluster.topics.create(NewTopic(name=name, partitions=1, configs={"cleanup.policy": "compact"}))
            partition = self.partition(name)
            partition.log.settings = dataclasses.replace(partition.log.settings, segment_bytes=SEGMENT_BYTES, min_cleanable_dirty_ratio=0.1)
            for _ in range(3 * segments):
                partition.append_records([Record(0, self.now_ms, b"k", bytes(SEGMENT_BYTES // 3))], now_ms=self.now_ms)
        await self.cluster.partitions.settle()
        clean_offset = self.partition("a").log.snapshot().segments[0].next_base_offset
        self.cluster.cleaner.checkpoint.get(self.cluster.cluster_metadata.topics["a"], 0)
        self.cluster.cleaner.checkpoint.note(A, clean_offset)

    def partition(self, name: str) -> Partition:
        partition = self.cluster.partitions.by_name(name, 0)
        assert partition is not None
        return partition

    def grab(self) -> TopicPartition | None:
        grabbed = self.runner.run(self.manager.grab_filthiest())
        return None if grabbed is None else grabbed[0].partition.name

    def close(self) -> None:
        async def close() -> None:
            await self.cluster.cleaner.stop()
            self.cluster.close()

        self.runner.run(close())
        self.runner.close()


@pytest.fixture
def case() -> Iterator[Case]:
    case = Case()
    yield case
    case.close()


def test_the_dirtiest_log_is_taken_and_none_by_two(case: Case) -> None:
    assert (case.grab(), case.grab(), case.grab()) == (B, A, None)
    assert case.manager.in_progress == [B, A]
    case.manager.end_cleaning(B)
    assert case.manager.in_progress == [A]
    assert case.grab() == B


def test_a_log_that_failed_is_left_alone_for_a_while(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        case.manager.set_uncleanable(case.partition("b"), 0, 77, "it is damaged")
    assert [fault.reason for fault in case.manager.uncleanable()] == ["it is damaged"]
    assert (case.manager.uncleanable_bytes, caplog.messages) == (77, ["b-0 is left uncleaned: it is damaged"])
    assert (case.grab(), case.grab()) == (A, None)
    case.now_ms += UNCLEANABLE_MS - 1
    assert case.grab() is None
    case.now_ms += 1
    assert (case.grab(), case.manager.uncleanable()) == (B, ())


def test_a_log_that_failed_and_lost_its_beginning_is_another_one(case: Case) -> None:
    case.manager.set_uncleanable(case.partition("b"), 0, 77, "it is damaged")
    case.partition("b").log.delete_records(1)
    assert case.grab() in (A, B)
    assert case.manager.uncleanable() == ()


def test_what_is_known_of_the_logs(case: Case) -> None:
    case.runner.run(case.manager.check_logs())
    known = case.manager.partitions()
    assert set(known) == {A, B}
    assert 0 < known[A].dirty_ratio < known[B].dirty_ratio == 1
    assert known[B].due_since_ms == case.manager.checked_ms == case.now_ms
    case.manager.set_clean(B, case.now_ms)
    assert case.manager.partitions()[B] == known[B]._replace(cleanable_bytes=0, dirty_ratio=0.0, due_since_ms=None, cleaned_ms=case.now_ms)
    case.manager.topic_deleted("b")
    assert set(case.manager.partitions()) == {A}


def topic(name: str, number: int) -> Topic:
    return Topic(name=name, topic_id=bytes([number]) * 16)


def test_what_is_written_is_read_again() -> None:
    files, orders = MemoryFiles(), topic("orders", 1)
    checkpoint = CleanerCheckpoint(files)
    checkpoint.load([orders])
    assert checkpoint.get(orders, 3) is None
    checkpoint.note(TopicPartition("orders", 3), 42)
    checkpoint.write()
    assert files.read_all(CLEANER_FILE) == b"0\n1\norders 3 42\n"
    again = CleanerCheckpoint(files)
    again.load([orders])
    assert (again.get(orders, 3), again.get(orders, 4)) == (42, None)


def test_topics_that_are_gone_are_left_out() -> None:
    files = MemoryFiles()
    files.replace(CLEANER_FILE, b"0\n2\nold 0 7\norders 0 8\n")
    checkpoint = CleanerCheckpoint(files)
    checkpoint.load([topic("orders", 1)])
    checkpoint.write()
    assert files.read_all(CLEANER_FILE) == b"0\n1\norders 0 8\n"


def test_a_later_topic_of_the_same_name_is_dirty() -> None:
    checkpoint = CleanerCheckpoint(MemoryFiles())
    first, second = topic("orders", 1), topic("orders", 2)
    checkpoint.load([first])
    checkpoint.note(TopicPartition("orders", 0), 42)
    assert checkpoint.get(second, 0) is None
    checkpoint.note(TopicPartition("orders", 0), 5)
    assert checkpoint.get(second, 0) == 5
    assert checkpoint.forget("orders")
    assert not checkpoint.forget("orders")
    assert checkpoint.get(second, 0) is None


def test_a_damaged_file_is_logged_and_replaced(caplog: pytest.LogCaptureFixture) -> None:
    files, orders = MemoryFiles(), topic("orders", 1)
    files.replace(CLEANER_FILE, b"0\n9\n")
    checkpoint = CleanerCheckpoint(files)
    checkpoint.load([orders])
    assert "damaged" in caplog.text
    assert checkpoint.get(orders, 0) is None
    checkpoint.write()
    assert files.read_all(CLEANER_FILE) == b"0\n0\n"


@pytest.mark.parametrize(
    ("is_enabled", "threads", "dead_threads", "state"),
    [
        (False, 1, 0, CleanerState.OFF),
        (True, 2, 1, CleanerState.RUNNING),
        (True, 2, 2, CleanerState.DEAD),
        (True, 0, 0, CleanerState.RUNNING),
    ],
)
def test_its_state(is_enabled: bool, threads: int, dead_threads: int, state: CleanerState) -> None:
    assert CleanerSnapshot(is_enabled=is_enabled, threads=threads, dead_threads=dead_threads).state is state


def test_it_is_idle_from_its_last_check_while_it_cleans_nothing() -> None:
    snapshot = CleanerSnapshot(is_enabled=True, looked_ms=100, cleaned_ms=40)
    facts = snapshot.facts(130)
    assert (facts.idle_ms, facts.since_cleaned_ms) == (30, 90)
    assert snapshot.facts(50).idle_ms == 0
    busy = CleanerSnapshot(is_enabled=True, looked_ms=100, at_work=(TopicPartition("t", 0),))
    assert (busy.facts(130).idle_ms, busy.facts(130).since_cleaned_ms) == (0, None)
