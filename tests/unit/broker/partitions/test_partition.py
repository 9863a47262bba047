"""One partition: many appends share one sync, waiting fetches are woken afterwards, and a failing disk is logged once."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from random import Random
from threading import Event, Timer
from typing import Any

import pytest

from ottla.broker.partitions.partition import Partition
from ottla.log.append import Appended, LogRefusal
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch, encode_records
from ottla.protocol.records.compression import Codec
from tests.support.kit.faulty_files import FaultyFiles


class CountedSyncs(MemoryFiles):
    """Counts how often a log file was synced."""

    def __init__(self) -> None:
        super().__init__()
        self.log_syncs = 0

    def sync(self, path: str) -> None:
        super().sync(path)
        self.log_syncs += path.endswith(".log")


class SlowSync(MemoryFiles):
    """Its first sync of a log file waits for `go_on`, and fails if it should; the others do what they are asked."""

    def __init__(self, *, fails: bool = False) -> None:
        super().__init__()
        self.is_first, self.fails, self.go_on = True, fails, Event()

    def sync(self, path: str) -> None:
        if path.endswith(".log") and self.is_first:
            self.is_first = False
            assert self.go_on.wait(60)
            if self.fails:
                raise StorageError(f"cannot sync {path}: the disk reports an error")
        super().sync(path)


def make(files: Any, executor: Executor | None = None, **settings: Any) -> Partition:
    log = PartitionLog(files, "t-0", LogSettings(**settings))
    log.open(0)
    return Partition(TopicPartition("t", 0), log, executor)


def append(partition: Partition, count: int = 1) -> None:
    partition.append_records([Record(0, 5, None, b"x")] * count, now_ms=5)


async def idle() -> None:
    """Lets whatever is ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


def test_without_flush_messages_nothing_waits() -> None:
    async def run() -> None:
        partition = make(MemoryFiles())
        append(partition)
        assert partition.when_durable() is None
        assert partition.flushing is None
        assert partition.log.high_watermark == 1

    asyncio.run(run())


def append_from_client(partition: Partition) -> None:
    outcome, durable = partition.append(memoryview(encode_batch([Record(0, 5, None, b"x")])), now_ms=5)
    assert isinstance(outcome, Appended)
    assert durable is None


def append_framed(partition: Partition) -> None:
    """As a coordinator does."""
    section = encode_records([Record(0, 5, b"k", b"v")], base_offset=0, base_timestamp_ms=5)
    partition.append_framed(bytes(section), 1, now_ms=5, codec=Codec.NONE)


APPENDS = pytest.mark.parametrize("append_one", [append_from_client, append_framed, append], ids=lambda each: each.__name__)


@APPENDS
def test_every_append_wakes_waiting_fetches(append_one: Callable[[Partition], None]) -> None:
    async def run() -> None:
        partition = make(MemoryFiles())
        seen: list[int] = []
        partition.waiters.add(lambda: seen.append(partition.log.high_watermark))
        append_one(partition)
        assert seen == [1]

    asyncio.run(run())


@APPENDS
def test_every_append_is_synced_when_flush_ms_has_passed(append_one: Callable[[Partition], None]) -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), flush_ms=5)
        append_one(partition)
        assert partition.log.recovery_point == 0
        async with asyncio.timeout(60):
            while partition.log.recovery_point < 1:
                await asyncio.sleep(0.001)

    asyncio.run(run())


@APPENDS
def test_every_append_that_fails_is_logged_and_so_is_the_next_that_succeeds(
    append_one: Callable[[Partition], None], caplog: pytest.LogCaptureFixture
) -> None:
    async def run() -> None:
        files = FaultyFiles(MemoryFiles(), Random(1))
        partition = make(files)
        append_one(partition)
        files.fail_next_write(after_bytes=3)
        with pytest.raises(StorageError):
            append_one(partition)
        append_one(partition)

    asyncio.run(run())
    assert len(caplog.messages) == 2
    assert caplog.messages[0].startswith("t-0 is offline: ")
    assert caplog.messages[1] == "t-0 takes records again"


def test_a_client_that_wants_no_acknowledgment_waits_for_no_sync_and_a_refused_batch_starts_none() -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), flush_messages=1)
        refused, durable = partition.append(memoryview(b"no batch"), now_ms=5)
        assert (isinstance(refused, LogRefusal), durable, partition.flushing) == (True, None, None)
        batch = encode_batch([Record(0, 5, None, b"x")])
        outcome, durable = partition.append(memoryview(batch), now_ms=5, is_acknowledged=False)
        assert (isinstance(outcome, Appended), durable) == (True, None)
        _, durable = partition.append(memoryview(batch), now_ms=5)
        assert durable is not None
        await durable
        assert (partition.log.recovery_point, partition.log.high_watermark) == (2, 2)

    asyncio.run(run())


def test_what_a_coordinator_appends_is_durable_at_once_where_flush_messages_asks_for_it() -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), flush_messages=1)
        seen: list[int] = []
        partition.waiters.add(lambda: seen.append(partition.log.high_watermark))
        append_framed(partition)
        assert (partition.log.recovery_point, partition.log.high_watermark, seen) == (1, 1, [1])

    asyncio.run(run())


def test_appends_of_one_turn_share_one_sync() -> None:
    async def run() -> None:
        files = CountedSyncs()
        partition = make(files, flush_messages=1)
        waiting = []
        for _ in range(10):
            append(partition)
            waiting.append(partition.when_durable())
        await asyncio.gather(*waiting)  # type: ignore[arg-type]
        assert files.log_syncs == 1
        assert (partition.log.high_watermark, partition.log.recovery_point) == (10, 10)

    asyncio.run(run())


def test_what_is_appended_during_a_sync_waits_for_the_next_one() -> None:
    async def run() -> None:
        files = CountedSyncs()
        partition = make(files, flush_messages=1)
        append(partition)
        first = partition.when_durable()
        await asyncio.sleep(0)  # the sync has begun: its end is known
        append(partition)
        second = partition.when_durable()
        assert first is not None
        assert second is not None
        await first
        assert not second.done()
        await second
        assert files.log_syncs == 2

    asyncio.run(run())


def test_waiting_fetches_are_woken_when_the_records_may_be_read() -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), flush_messages=1)
        seen: list[int] = []
        partition.waiters.add(lambda: seen.append(partition.log.high_watermark))
        append(partition)
        assert seen == []
        await partition.when_durable()  # type: ignore[misc]
        assert seen == [1]

    asyncio.run(run())


def test_below_flush_messages_records_may_be_read_at_once() -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), flush_messages=3)
        append(partition, 2)
        assert (partition.when_durable(), partition.log.high_watermark) == (None, 2)
        append(partition)
        assert partition.log.high_watermark == 2
        await partition.when_durable()  # type: ignore[misc]
        assert partition.log.high_watermark == 3

    asyncio.run(run())


def test_a_failed_sync_is_reported_to_all_that_wait_and_once_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        files = FaultyFiles(MemoryFiles(), Random(1))
        partition = make(files, flush_messages=1)
        files.fail_next_sync()
        append(partition)
        append(partition)
        outcomes = await asyncio.gather(partition.when_durable(), partition.when_durable(), return_exceptions=True)  # type: ignore[arg-type]
        assert [type(outcome) for outcome in outcomes] == [StorageError, StorageError]
        with pytest.raises(StorageError) as refused:
            append(partition)
        partition.report(refused.value)  # again
        assert partition.log.high_watermark == 0

    asyncio.run(run())
    assert len([record for record in caplog.records if "t-0 is offline" in record.message]) == 1


def test_a_full_disk_is_reported_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        files = FaultyFiles(MemoryFiles(), Random(1))
        partition = make(files)
        append(partition)
        for _ in range(3):
            files.fail_next_write(after_bytes=3)
            with pytest.raises(StorageError) as full:
                append(partition)
            partition.report(full.value)
        append(partition)
        append(partition)
        assert partition.log.log_end_offset == 3

    asyncio.run(run())
    said = [record.message for record in caplog.records]
    assert len(said) == 2
    assert said[0].startswith("t-0 is offline: ")
    assert said[1] == "t-0 takes records again"


def test_reads_that_fail_are_reported_once_though_writes_go_on(caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        partition = make(MemoryFiles())
        for _ in range(3):
            partition.report(StorageError("cannot read t-0/00000000000000000000.log: the disk reports an error"))
            append(partition)

    asyncio.run(run())
    assert [record.message for record in caplog.records] == ["t-0: cannot read t-0/00000000000000000000.log: the disk reports an error"]


def test_flush_ms_syncs_what_is_old_whatever_else_is_set() -> None:
    async def run() -> None:
        files = CountedSyncs()
        partition = make(files, flush_ms=20)
        append(partition)
        append(partition)
        assert (partition.when_durable(), partition.log.high_watermark) == (None, 2)
        await idle()
        assert files.log_syncs == 0
        async with asyncio.timeout(60):
            while partition.log.recovery_point < 2:
                await asyncio.sleep(0.005)
        assert files.log_syncs == 1
        append(partition)
        async with asyncio.timeout(60):
            while partition.log.recovery_point < 3:
                await asyncio.sleep(0.005)

    asyncio.run(run())


def test_flush_ms_that_is_set_later_counts_for_what_is_there() -> None:
    async def run() -> None:
        partition = make(MemoryFiles())
        append(partition)
        assert partition.age_timer is None
        partition.log.settings = LogSettings(flush_ms=5)
        partition.settings_changed()
        async with asyncio.timeout(60):
            while partition.log.recovery_point < 1:
                await asyncio.sleep(0.005)
        partition.log.settings = LogSettings()
        partition.settings_changed()
        append(partition)
        assert partition.age_timer is None

    asyncio.run(run())


def test_the_brokers_own_records_are_durable_when_flush_messages_says_so() -> None:
    async def run() -> None:
        files = CountedSyncs()
        partition = make(files, flush_messages=1)
        append(partition)
        shared = partition.when_durable()
        await asyncio.sleep(0)  # a sync is under way that does not cover the next record
        partition.log.append_records([Record(0, 5, None, b"y")], now_ms=5)
        partition.make_durable()
        assert (partition.log.recovery_point, partition.log.flush_due) == (2, False)
        await shared  # type: ignore[misc]
        assert partition.log.recovery_point == 2

    asyncio.run(run())


def test_a_sync_that_fails_where_the_loop_took_it_over_ends_the_log() -> None:
    async def run() -> None:
        files, busy = FaultyFiles(MemoryFiles(), Random(1)), Event()
        with ThreadPoolExecutor(1) as executor:
            executor.submit(busy.wait, 5)
            partition = make(files, executor, flush_messages=1)
            append(partition)
            shared = partition.when_durable()
            await asyncio.sleep(0)  # the sync has begun, but no thread has time for it
            files.fail_next_sync()
            append(partition)
            with pytest.raises(StorageError, match="injected fault"):
                partition.make_durable()
            busy.set()
            with pytest.raises(StorageError):
                await shared  # type: ignore[misc]
        assert (partition.log.high_watermark, partition.log.recovery_point) == (0, 0)
        assert partition.log.failure is not None

    asyncio.run(run())


def test_a_sync_that_fails_in_its_thread_is_no_success_for_the_loop() -> None:
    async def run() -> None:
        files = SlowSync(fails=True)
        partition = make(files, flush_messages=1)
        append(partition)
        shared = partition.when_durable()
        async with asyncio.timeout(60):
            while files.is_first:
                await asyncio.sleep(0.001)
        append(partition)
        Timer(0.05, files.go_on.set).start()
        with pytest.raises(StorageError, match="the disk reports an error"):
            partition.make_durable()
        with pytest.raises(StorageError):
            await shared  # type: ignore[misc]
        assert partition.log.high_watermark == 0
        assert partition.log.failure is not None

    asyncio.run(run())


def test_what_nothing_waits_for_is_synced_too() -> None:
    async def run() -> None:
        files = SlowSync()
        partition = make(files, flush_messages=1)
        append(partition)
        first = partition.when_durable()
        async with asyncio.timeout(60):
            while files.is_first:
                await asyncio.sleep(0.001)
        append(partition)  # acks=0
        files.go_on.set()
        await first  # type: ignore[misc]
        async with asyncio.timeout(60):
            while partition.log.high_watermark < 2:
                await asyncio.sleep(0.001)

    asyncio.run(run())


def test_flush_ms_counts_for_what_comes_during_a_sync_that_lasts_longer() -> None:
    async def run() -> None:
        files = SlowSync()
        partition = make(files, flush_ms=5)
        append(partition)
        async with asyncio.timeout(60):
            while files.is_first:
                await asyncio.sleep(0.001)
            append(partition)
            while partition.age_timer is not None:
                await asyncio.sleep(0.001)
            files.go_on.set()
            while partition.log.recovery_point < 2:
                await asyncio.sleep(0.001)

    asyncio.run(run())


def test_full_segments_are_synced_after_something_unexpected_failed_before(monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), segment_bytes=1_000_000)

        def fail(_: PartitionLog) -> None:
            raise ZeroDivisionError

        with monkeypatch.context() as patched:
            patched.setattr(PartitionLog, "sync_rolled", fail)
            for _ in range(2):
                partition.append_records([Record(0, 5, None, bytes(700_000))], now_ms=5)
            with pytest.raises(ZeroDivisionError):
                await partition.syncing  # type: ignore[misc]
        append(partition)
        assert partition.syncing is not None
        await partition.syncing
        assert partition.log.rolled_segments == 0

    asyncio.run(run())


def test_a_deleted_partition_leaves_nothing_waiting() -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), flush_messages=1, flush_ms=1000)
        woken: list[bool] = []
        partition.waiters.add(lambda: woken.append(partition.deleted))
        append(partition)
        waiting = partition.when_durable()
        await asyncio.sleep(0)
        partition.log.move_away("t-0.1-delete")
        partition.mark_deleted()
        with pytest.raises(StorageError, match="t-0 was deleted") as raised:
            await waiting  # type: ignore[misc]
        assert raised.value.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert woken == [True]
        await asyncio.gather(*filter(None, [partition.flushing]))
        assert partition.log.log_end_offset == 0

    asyncio.run(run())


def test_a_reader_that_has_gone_is_no_trouble() -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), flush_messages=1)
        append(partition)
        waiting = partition.when_durable()
        waiting.cancel()  # type: ignore[union-attr]
        async with asyncio.timeout(60):
            while partition.log.recovery_point < 1:
                await asyncio.sleep(0.001)

    asyncio.run(run())


def test_full_segments_are_synced_off_the_loop() -> None:
    async def run() -> None:
        partition = make(MemoryFiles(), segment_bytes=1_000_000)
        for _ in range(3):
            partition.append_records([Record(0, 5, None, bytes(700_000))], now_ms=5)
        assert partition.log.rolled_segments > 0
        assert partition.syncing is not None
        await partition.syncing
        assert (partition.log.rolled_segments, partition.syncing) == (0, None)

    asyncio.run(run())


def test_a_sync_that_fails_unexpectedly_is_a_failed_sync(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    async def run() -> None:
        files = MemoryFiles()
        partition = make(files, flush_messages=1)
        append(partition)
        waiting = partition.when_durable()

        def fail(_path: str) -> None:
            raise ZeroDivisionError

        monkeypatch.setattr(files, "sync", fail)
        with pytest.raises(StorageError, match="ZeroDivisionError"):
            await waiting  # type: ignore[misc]
        assert partition.log.failure is not None
        with pytest.raises(StorageError):
            append(partition)
        assert partition.log.high_watermark == 0

    async def in_time() -> None:
        async with asyncio.timeout(60):
            await run()

    asyncio.run(in_time())
    assert "Traceback" in caplog.text


def test_a_failure_that_was_said_elsewhere_is_not_said_again(caplog: pytest.LogCaptureFixture) -> None:
    partition = make(MemoryFiles())
    append(partition)
    partition.log.fail("the data directory is gone")
    partition.set_reported("the data directory is gone")
    partition.report(StorageError("the data directory is gone"))
    assert caplog.text == ""
    assert partition.log.failure == "the data directory is gone"
