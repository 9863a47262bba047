"""The cleaner's shell over real logs in memory: which log, when, what becomes of failures, and how it ends."""

import asyncio
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from typing import Any

import pytest

from ottla.broker.composition import Components
from ottla.broker.partitions import log_cleaner
from ottla.broker.partitions.cleaner_manager import UNCLEANABLE_MS
from ottla.broker.partitions.log_cleaner import COMPILED_BYTES_MIN, CleanerBackends, CleanerStats, Throttle
from ottla.broker.partitions.partition import Partition
from ottla.config import BrokerConfig
from ottla.log.checkpoints import CLEANER_FILE
from ottla.log.cleaner.backend import ReferenceBackend
from ottla.log.cleaner.cleaning import Cleaned
from ottla.log.cleaner.health import CleanerState
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.metadata.config_changes import SET
from ottla.metadata.resource_configs import BROKER_RESOURCE
from ottla.metadata.topics import NewTopic, Topic
from ottla.protocol.arrow import primitives
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record, TopicPartition
from tests.support.kit.faulty_files import overwrite

SEGMENT_BYTES = 2000


class Case:
    """A broker without a socket, whose cleaner does what the test says, at the test's time."""

    def __init__(self, files: MemoryFiles | None = None, **config: str) -> None:
        self.runner = asyncio.Runner()
        self.is_closed = False
        self.now_ms = 1_700_000_000_000
        self.files = files or MemoryFiles()
        named = {name.replace("_", "."): value for name, value in config.items()}
        self.cluster = Components(self.files, BrokerConfig(named), clock=lambda: self.now_ms)
        self.cleaner = self.cluster.cleaner
        self.do(self._open())

    async def _open(self) -> None:
        self.cluster.open()
        self.cleaner.checkpoint.load(self.cluster.cluster_metadata.topics.values())

    def do(self, what: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(what)

    def close(self) -> None:
        if self.is_closed:
            return
        self.is_closed = True

        async def close() -> None:
            await self.cleaner.stop()
            await self.cluster.partitions.settle()
            self.cluster.close()

        self.do(close())
        self.runner.close()

    def topic(self, name: str = "t", policy: str = "compact") -> Topic:
        made = self.cluster.topics.create(NewTopic(name=name, partitions=1, configs={"cleanup.policy": policy}))
        assert isinstance(made, Topic), made
        return made

    def partition(self, topic: Topic) -> Partition:
        partition = self.cluster.partitions.get(topic, 0)
        assert partition is not None
        partition.log.settings = dataclasses.replace(partition.log.settings, segment_bytes=SEGMENT_BYTES, min_cleanable_dirty_ratio=0.01)
        return partition

    def write(self, topic: Topic, *keys: str, value_bytes: int = 10) -> None:
        """One batch a record, all durable in the end."""

        async def append() -> None:
            partition = self.partition(topic)
            for key in keys:
                record = Record(0, self.now_ms, key.encode(), bytes(value_bytes))
                partition.log.append_records([record], now_ms=self.now_ms)
            partition.log.flush()

        self.do(append())

    def fill(self, topic: Topic, label: str = "filler") -> None:
        """Rolls the segment by other data."""
        self.write(topic, *(f"{label}-{number}" for number in range(5)), value_bytes=SEGMENT_BYTES // 3)

    def offsets(self, topic: Topic, prefix: str = "K") -> list[int]:
        records = self.partition(topic).log.read_records(0)
        return [record.offset for record in records if (record.key or b"").decode().startswith(prefix)]

    def clean(self) -> bool:
        return bool(self.do(self.cleaner.clean_filthiest()))


@pytest.fixture
def make_case() -> Iterator[Callable[..., Case]]:
    made: list[Case] = []

    def make(files: MemoryFiles | None = None, **config: str) -> Case:
        made.append(Case(files, **config))
        return made[-1]

    yield make
    for case in made:
        case.close()


@pytest.fixture
def case(make_case: Callable[..., Case]) -> Case:
    return make_case()


def dirty_topic(case: Case, name: str = "t") -> Topic:
    topic = case.topic(name)
    case.write(topic, "K1", "K2", "K1", "K1", "K3", "K2")
    case.fill(topic)
    return topic


def test_the_last_record_of_each_key_stays_at_its_offset(case: Case) -> None:
    topic = dirty_topic(case)
    case.now_ms += 5
    assert case.clean()
    assert case.offsets(topic) == [3, 4, 5]
    view = case.cleaner.snapshot()
    assert (view.state, view.cleanings, view.cleaned_ms, view.at_work) == (CleanerState.RUNNING, 1, case.now_ms, ())
    assert 0 < view.written_bytes < view.read_bytes
    assert 0 < view.recopy_ratio < 1
    assert 0 < view.buffer_ratio < 1
    (checkpointed,) = case.files.read_all(CLEANER_FILE).decode().splitlines()[2:]
    assert checkpointed == f"t 0 {case.partition(topic).log.snapshot().active_base_offset}"
    assert not case.clean(), "there is nothing more to do"
    assert case.cleaner.snapshot().partitions[TopicPartition("t", 0)].cleanable_bytes == 0


def test_the_old_files_wait_under_another_name(case: Case) -> None:
    topic = dirty_topic(case)
    case.clean()
    names = case.files.list("t-0")
    assert "00000000000000000000.log.deleted" in names
    assert not [name for name in names if name.endswith((".cleaned", ".swap"))]
    case.close()
    assert not [name for name in case.files.list("t-0") if name.endswith(".deleted")]
    assert topic.name == "t"


def test_the_dirtiest_log_comes_first(case: Case) -> None:
    first, second = case.topic("first"), case.topic("second")
    for topic in (first, second):
        case.write(topic, *["K1"] * 10)
        case.fill(topic)
    assert case.clean()
    assert case.clean()
    case.write(first, *["K1"] * 100)
    case.write(second, *["K1"] * 10)
    case.fill(first)
    case.fill(second)
    case.clean()
    assert len(case.offsets(first)) == 1
    assert len(case.offsets(second)) > 1
    case.clean()
    assert len(case.offsets(second)) == 1


def test_only_compacted_topics_are_cleaned(case: Case) -> None:
    topic = case.topic("t", policy="delete")
    case.write(topic, "K1", "K1")
    case.fill(topic)
    assert not case.clean()
    assert case.cleaner.snapshot().partitions == {}
    both = case.topic("both", policy="compact,delete")
    case.write(both, "K1", "K1")
    case.fill(both)
    assert case.clean()
    assert case.offsets(both) == [1]


def test_what_is_clean_is_known_after_a_restart(make_case: Callable[..., Case]) -> None:
    first = make_case()
    dirty_topic(first)
    assert first.clean()
    first.close()
    second = make_case(first.files)
    topic = second.cluster.cluster_metadata.topics["t"]
    assert not second.clean()
    assert second.offsets(topic) == [3, 4, 5]


def test_a_topic_of_the_same_name_begins_dirty(case: Case) -> None:
    dirty_topic(case)
    case.clean()

    async def delete() -> None:
        assert case.cluster.topic_deletion.delete("t") is None
        await case.cluster.deletions.write()
        await case.cluster.partitions.when_moved(["t"])

    case.do(delete())
    assert case.files.read_all(CLEANER_FILE) == b"0\n0\n"
    assert case.cleaner.snapshot().partitions == {}
    topic = dirty_topic(case)
    assert case.clean()
    assert case.offsets(topic) == [3, 4, 5]


def test_a_checkpoint_outside_of_the_log_is_not_believed(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    topic = dirty_topic(case)
    case.cleaner.checkpoint.get(topic, 0)
    case.cleaner.checkpoint.note(TopicPartition("t", 0), 10**6)
    assert case.clean()
    assert "is not in the log" in caplog.text
    assert case.offsets(topic) == [3, 4, 5]


def damage(case: Case, name: str) -> None:
    """Flips a bit in the values of the first segment."""
    path = f"{name}-0/00000000000000000000.log"
    data = case.files.read_all(path)
    overwrite(case.files, path, len(data) - 100, bytes([data[-100] ^ 1]))


def test_a_damaged_log_is_left_alone_and_the_others_go_on(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    dirty_topic(case, "bad")
    good = dirty_topic(case, "good")
    damage(case, "bad")
    assert [case.clean() for _ in range(4)].count(True) == 1
    assert case.offsets(good) == [3, 4, 5]
    (fault,) = case.cleaner.snapshot().uncleanable
    assert (fault.topic, fault.partition, fault.at_ms) == ("bad", 0, case.now_ms)
    assert "damaged" in fault.reason
    assert case.cleaner.snapshot().uncleanable_bytes > 0
    assert caplog.text.count("bad-0 is left uncleaned") == 1
    assert not [name for name in case.files.list("bad-0") if name.endswith(".cleaned")]


def test_a_damaged_log_is_tried_again(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    dirty_topic(case)
    attempts: list[int] = []

    def fail(*_: Any, **__: Any) -> None:
        attempts.append(case.now_ms)
        raise StorageError("the disk is full")

    monkeypatch.setattr(log_cleaner, "clean", fail)
    for _ in range(3):
        assert not case.clean()
    assert len(attempts) == 1
    case.now_ms += UNCLEANABLE_MS
    assert not case.clean()
    assert len(attempts) == 2
    topic = case.cluster.cluster_metadata.topics["t"]
    case.partition(topic).log.delete_records(2)
    assert not case.clean()
    assert len(attempts) == 3, "what was in the way may be deleted now"


def test_our_own_mistakes_do_not_stop_the_cleaner(case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    dirty_topic(case)

    def fail(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("once in a lifetime")

    monkeypatch.setattr(log_cleaner, "clean", fail)
    assert not case.clean()
    (fault,) = case.cleaner.snapshot().uncleanable
    assert "ZeroDivisionError" in fault.reason
    assert "Traceback" in caplog.text
    assert case.cleaner.snapshot().state is CleanerState.RUNNING


def test_a_topic_may_be_deleted_while_it_is_cleaned(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    dirty_topic(case)
    real = log_cleaner.clean

    async def delete() -> None:
        case.cluster.topic_deletion.delete("t")

    def clean(*arguments: Any, swap: Callable[..., bool], **named: Any) -> Any:
        def late_swap(*what: Any) -> bool:
            asyncio.run_coroutine_threadsafe(delete(), case.runner.get_loop()).result()
            return swap(*what)

        return real(*arguments, swap=late_swap, **named)

    monkeypatch.setattr(log_cleaner, "clean", clean)
    assert not case.clean()
    view = case.cleaner.snapshot()
    assert (view.uncleanable, view.at_work, view.cleanings) == ((), (), 0)
    monkeypatch.setattr(log_cleaner, "clean", real)
    assert not case.clean()
    assert not case.files.exists(CLEANER_FILE) or b"t 0" not in case.files.read_all(CLEANER_FILE)


def test_records_may_be_deleted_while_they_are_cleaned(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = dirty_topic(case)
    real = log_cleaner.clean

    async def delete() -> None:
        log = case.partition(topic).log
        log.delete_records(log.snapshot().active_base_offset)
        log.expire_segments(case.now_ms)

    def clean(*arguments: Any, swap: Callable[..., bool], **named: Any) -> Any:
        def late_swap(*what: Any) -> bool:
            asyncio.run_coroutine_threadsafe(delete(), case.runner.get_loop()).result()
            return swap(*what)

        return real(*arguments, swap=late_swap, **named)

    monkeypatch.setattr(log_cleaner, "clean", clean)
    assert not case.clean()
    assert case.cleaner.snapshot().uncleanable == ()
    assert not [name for name in case.files.list("t-0") if name.endswith((".cleaned", ".swap"))]


def test_a_checkpoint_that_cannot_be_written_is_logged(
    case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = dirty_topic(case)
    real = case.files.replace

    def replace(path: str, *what: Any, **named: Any) -> None:
        if path == CLEANER_FILE:
            raise StorageError("the disk is full")
        real(path, *what, **named)

    monkeypatch.setattr(case.files, "replace", replace)
    assert case.clean()
    assert "checkpoint is not written: the disk is full" in caplog.text
    assert case.offsets(topic) == [3, 4, 5]


def test_it_runs_by_itself(make_case: Callable[..., Case]) -> None:
    case = make_case(log_cleaner_backoff_ms="10", log_cleaner_threads="2")
    topics = [dirty_topic(case, name) for name in ("a", "b", "c")]

    async def run() -> None:
        case.cleaner.start()
        async with asyncio.timeout(60):
            while case.cleaner.snapshot().cleanings < 3:
                await asyncio.sleep(0.001)

    case.do(run())
    assert [case.offsets(topic) for topic in topics] == [[3, 4, 5]] * 3
    assert case.cleaner.snapshot().dead_threads == 0


def test_cleaning_uses_the_brokers_own_files_and_half_of_a_threads_buffer(
    make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    real, buffers_bytes = log_cleaner.clean, []

    def clean(files: Any, *arguments: Any, io_buffer_bytes: int, **named: Any) -> Any:
        assert files is case.files
        buffers_bytes.append(io_buffer_bytes)
        return real(files, *arguments, io_buffer_bytes=io_buffer_bytes, **named)

    monkeypatch.setattr(log_cleaner, "clean", clean)
    for config in ({}, {"log_cleaner_io_buffer_size": "60000", "log_cleaner_threads": "3"}, {"log_cleaner_io_buffer_size": "0"}):
        case = make_case(**config)
        topic = dirty_topic(case)
        assert case.clean()
        assert case.offsets(topic) == [3, 4, 5], "a batch that is larger than the buffer is cleaned as well"
    assert buffers_bytes == [256 * 1024, 10_000, 0]


def test_two_threads_never_clean_one_log(make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(log_cleaner_backoff_ms="0", log_cleaner_threads="2")
    dirty_topic(case)
    real, running, most = log_cleaner.clean, threading.Semaphore(1), []

    def clean(*arguments: Any, **named: Any) -> Any:
        most.append(running.acquire(blocking=False))
        try:
            time.sleep(0.02)
            return real(*arguments, **named)
        finally:
            running.release()

    monkeypatch.setattr(log_cleaner, "clean", clean)

    async def run() -> None:
        case.cleaner.start()
        async with asyncio.timeout(60):
            while case.cleaner.snapshot().cleanings < 1:
                await asyncio.sleep(0.001)

    case.do(run())
    assert most == [True]


def test_it_stops_within_a_moment(make_case: Callable[..., Case]) -> None:
    case = make_case(log_cleaner_io_max_bytes_per_second="10")
    topic = dirty_topic(case)

    async def run() -> None:
        case.cleaner.start()
        while not case.cleaner._run.throttle._free_at:  # it read something, and waits
            await asyncio.sleep(0.001)
        began = time.monotonic()
        await case.cleaner.stop()
        assert time.monotonic() - began < 20, "what it waits for takes longer"

    case.do(run())
    assert case.cleaner.snapshot().uncleanable == ()
    assert case.offsets(topic) == [0, 1, 2, 3, 4, 5]


def change(case: Case, **settings: str) -> None:
    changes = [(name.replace("_", "."), SET, value) for name, value in settings.items()]
    assert case.cluster.topics.alter_config(BROKER_RESOURCE, "", changes) is None


def test_settings_that_change_take_effect_at_once_in_a_cleaning_under_way(
    make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends, and begins again: with the first settings it would take minutes."""
    real, buffers_bytes = log_cleaner.clean, []

    def clean(*arguments: Any, io_buffer_bytes: int, **named: Any) -> Any:
        buffers_bytes.append(io_buffer_bytes)
        return real(*arguments, io_buffer_bytes=io_buffer_bytes, **named)

    monkeypatch.setattr(log_cleaner, "clean", clean)
    case = make_case(log_cleaner_io_max_bytes_per_second="10")
    topic = dirty_topic(case)

    async def run() -> None:
        case.cleaner.start()
        async with asyncio.timeout(60):
            while not case.cleaner._run.throttle._free_at:  # it read something, and waits
                await asyncio.sleep(0.001)
            change(case, log_cleaner_io_max_bytes_per_second="1e9", log_cleaner_io_buffer_size="60000", log_cleaner_threads="2")
            while case.cleaner.snapshot().cleanings < 1:
                await asyncio.sleep(0.001)

    case.do(run())
    assert case.offsets(topic) == [3, 4, 5]
    assert buffers_bytes == [256 * 1024, 15_000]
    snapshot = case.cleaner.snapshot()
    assert (snapshot.threads, snapshot.dead_threads, snapshot.uncleanable) == (2, 0, ())


def test_a_shorter_backoff_takes_effect_at_once_for_a_thread_that_waits(make_case: Callable[..., Case]) -> None:
    case = make_case(log_cleaner_backoff_ms="3600000")

    async def start() -> None:
        case.cleaner.start()
        async with asyncio.timeout(60):
            while not case.cleaner.manager.checked_ms:
                await asyncio.sleep(0.001)

    async def run() -> None:
        change(case, log_cleaner_backoff_ms="10")
        async with asyncio.timeout(60):
            while case.cleaner.snapshot().cleanings < 1:
                await asyncio.sleep(0.001)

    case.do(start())
    dirty_topic(case)
    case.do(run())
    assert case.cleaner.snapshot().backoff_ms == 10


def test_settings_that_change_while_it_stops(make_case: Callable[..., Case]) -> None:
    case = make_case()

    async def run() -> None:
        case.cleaner.start()
        change(case, log_cleaner_threads="2")
        change(case, log_cleaner_backoff_ms="5")
        await case.cleaner.stop()
        change(case, log_cleaner_threads="3")

    case.do(run())


def test_a_thread_that_dies_is_counted(
    make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    case = make_case(log_cleaner_threads="2")

    async def fail() -> list[Any]:
        raise ZeroDivisionError

    async def run() -> None:
        monkeypatch.setattr(case.cleaner.manager, "check_logs", fail)
        case.cleaner.start()
        async with asyncio.timeout(60):
            while case.cleaner.snapshot().dead_threads < 2:
                await asyncio.sleep(0.001)

    case.do(run())
    assert case.cleaner.snapshot().state is CleanerState.DEAD
    assert "0 of 2 are left" in caplog.text


def test_without_a_cleaner_the_account_goes_on(make_case: Callable[..., Case]) -> None:
    case = make_case(log_cleaner_enable="false")
    dirty_topic(case)

    async def run() -> None:
        case.cleaner.start()

    case.do(run())
    began_ms = case.now_ms
    seen = case.do(case.cleaner.up_to_date_snapshot())
    assert (seen.state, seen.threads, seen.looked_ms) == (CleanerState.OFF, 0, None)
    assert seen.partitions[TopicPartition("t", 0)].due_since_ms == began_ms
    case.now_ms += log_cleaner.SNAPSHOT_AGE_MS_MAX + 1
    later = case.do(case.cleaner.up_to_date_snapshot())
    assert later.partitions[TopicPartition("t", 0)].due_since_ms == began_ms, "it is due since it was first seen"
    assert later.max_dirty_ratio == 1


def test_a_log_that_a_crash_left_undurable_is_made_durable(case: Case) -> None:
    topic = case.topic()
    partition = case.partition(topic)

    async def append() -> None:
        for _ in range(6):
            partition.log.append_records([Record(0, case.now_ms, b"K1", bytes(SEGMENT_BYTES // 3))], now_ms=case.now_ms)

    case.do(append())
    assert partition.log.recovery_point < partition.log.snapshot().active_base_offset
    assert not case.clean(), "what is not durable is not cleaned"
    case.do(case.cluster.partitions.settle())
    assert case.clean()


def test_the_log_says_what_was_done(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    dirty_topic(case)
    case.clean()
    assert "t-0 is clean up to offset" in caplog.text


def test_a_log_that_cannot_be_viewed_is_left_alone(case: Case, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    dirty_topic(case, "bad")
    good, view = dirty_topic(case, "good"), PartitionLog.snapshot

    def fail(partition_log: PartitionLog) -> Any:
        if partition_log.directory == "bad-0":
            raise StorageError("cannot read bad-0/00000000000000000000.index: the disk reports an error")
        return view(partition_log)

    monkeypatch.setattr(PartitionLog, "snapshot", fail)
    assert (case.clean(), case.clean(), case.offsets(good)) == (True, False, [3, 4, 5])
    assert [fault.topic for fault in case.cleaner.snapshot().uncleanable] == ["bad"]
    assert caplog.text.count("bad-0 is left uncleaned: cannot read bad-0") == 1


def test_a_cleaner_that_dies_is_seen(
    make_case: Callable[..., Case], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    case = make_case(log_cleaner_backoff_ms="0")
    errors = [StorageError("the disk fails"), ZeroDivisionError(), ZeroDivisionError()]  # the first ends nothing

    async def fail() -> Any:
        raise errors.pop(0)

    async def die() -> None:
        monkeypatch.setattr(case.cleaner.manager, "check_logs", fail)
        case.now_ms += log_cleaner.SNAPSHOT_AGE_MS_MAX + 1
        case.cleaner.start()
        async with asyncio.timeout(60):
            while not case.cleaner.snapshot().dead_threads:
                await asyncio.sleep(0.001)
        await case.cluster.health.sample()

    case.do(die())
    assert (case.cleaner.snapshot().state, errors, case.cluster.health.snapshot.is_healthy) == (CleanerState.DEAD, [], False)
    assert caplog.text.count("the cleaner could not check the logs") == 2


def never(_command: Any) -> Any:
    raise AssertionError("nothing is to be compiled")


def test_small_logs_start_nothing() -> None:
    assert isinstance(CleanerBackends(never).choose(COMPILED_BYTES_MIN - 1), ReferenceBackend)


@pytest.mark.parametrize(("is_cached", "backend"), [(True, "CompiledBackend"), (False, "ReferenceBackend")])
def test_large_logs_take_the_columnar_backend_where_they_can(monkeypatch: pytest.MonkeyPatch, is_cached: bool, backend: str) -> None:
    class Process:
        def poll(self) -> None:
            return None

        def kill(self) -> None:
            pass

        def wait(self) -> int:
            return 0

    monkeypatch.setattr(primitives, "is_cached", lambda _module: is_cached)
    backends = CleanerBackends(lambda _command: Process())  # type: ignore[arg-type,return-value]
    assert type(backends.choose(COMPILED_BYTES_MIN)).__name__ == backend
    backends.close()


def test_a_cleaning_is_added() -> None:
    stats = CleanerStats()
    stats.add(Cleaned(9, indexed_bytes=10, read_bytes=100, written_bytes=25, map_utilization=0.5), start_ms=1000, end_ms=1500)
    assert stats == CleanerStats(1, 110, 25, 0.25, 0.5, 500, 1500)
    stats.add(Cleaned(9), start_ms=3000, end_ms=2000)  # the clock was set back
    assert stats == CleanerStats(2, 110, 25, 0.0, 0.0, 0, 2000)


def test_one_that_was_stopped_counts_for_its_bytes() -> None:
    stats = CleanerStats()
    stats.add(Cleaned(9, is_complete=False, indexed_bytes=10, read_bytes=100, written_bytes=25), start_ms=1000, end_ms=1500)
    assert stats == CleanerStats(read_bytes=110, written_bytes=25)


def test_a_thread_that_comes_too_early_waits() -> None:
    now, waits = [100.0], []
    throttle = Throttle(1000, waits.append, lambda: now[0])
    throttle(500)
    throttle(250)
    assert waits == [0.5, 0.75], "together they may do 1000 bytes a second"
    now[0] += 0.75
    throttle(100)
    assert waits[2:] == pytest.approx([0.1])
    now[0] += 60
    throttle(100)
    assert waits[3:] == pytest.approx([0.1]), "what was not used in the last minute is not saved up"


def test_without_a_limit_nothing_waits() -> None:
    waits: list[float] = []
    throttle = Throttle(float("1.7976931348623157E308"), waits.append, lambda: 0.0)
    for _ in range(100):
        throttle(1 << 30)
    assert waits == []
