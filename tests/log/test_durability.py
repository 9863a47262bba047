"""What is durable when: flush.messages asks, many appends share one sync, and nothing is read before it may be."""

from random import Random

import pytest

from ottla.log.append import Appended
from ottla.log.file_system import Buffer, MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import NotAccessible, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from tests.support.kit.faulty_files import FaultyFiles

NOW_MS = 1_000_000


def open_log(files: FaultyFiles | MemoryFiles, **settings: object) -> PartitionLog:
    log = PartitionLog(files, "t-0", LogSettings(**settings))  # type: ignore[arg-type]
    log.open(NOW_MS)
    return log


def append(log: PartitionLog, count: int = 3, now_ms: int = NOW_MS) -> None:
    batch = encode_batch([Record(number, NOW_MS, b"k", b"v") for number in range(count)])
    assert isinstance(log.append(batch, now_ms=now_ms), Appended)


def test_without_flush_messages_everything_may_be_read_at_once() -> None:
    log = open_log(MemoryFiles())
    append(log)
    assert (log.flush_due, log.high_watermark, log.recovery_point) == (False, 3, 0)
    log.flush()
    assert (log.high_watermark, log.recovery_point, log.begin_flush()) == (3, 3, None)


def test_what_must_be_synced_is_not_read_before_it_is() -> None:
    log = open_log(MemoryFiles(), flush_messages=5)
    append(log)
    assert (log.flush_due, log.high_watermark) == (False, 3)
    append(log)
    assert (log.flush_due, log.high_watermark) == (True, 3)
    assert log.read(3, 1000) == b""
    assert log.read(6, 1000) == b""
    assert log.read(7, 1000) is None
    flush = log.begin_flush()
    assert flush is not None
    append(log)
    assert log.begin_flush() is None, "one at a time: the next one takes what came meanwhile"
    flush.run()
    log.finish_flush(flush)
    assert (log.recovery_point, log.high_watermark, log.flush_due) == (6, 9, False)
    assert log.read(6, 1000)


def test_one_flush_covers_many_appends_and_none_that_came_later() -> None:
    log = open_log(MemoryFiles(), flush_messages=1)
    for _ in range(4):
        append(log)
    flush = log.begin_flush()
    assert flush is not None
    append(log)
    flush.run()
    log.finish_flush(flush)
    assert (log.recovery_point, log.high_watermark, log.flush_due) == (12, 12, True)
    log.flush()
    assert (log.recovery_point, log.high_watermark, log.flush_due) == (15, 15, False)


def test_a_range_ends_where_reading_must_end() -> None:
    log = open_log(MemoryFiles(), flush_messages=4)
    append(log)
    append(log)
    whole = log.read(0, 10_000)
    log.flush()
    both = log.read(0, 10_000)
    assert whole is not None
    assert both is not None
    assert len(both) == 2 * len(whole)
    assert log.read(0, 10_000, end_offset=3) == whole
    assert log.read(3, 10_000, end_offset=3) == b""


def test_the_age_of_what_is_dirty() -> None:
    log = open_log(MemoryFiles())
    assert log.dirty_since_ms is None
    append(log, now_ms=NOW_MS + 1)
    append(log, now_ms=NOW_MS + 5)
    assert log.dirty_since_ms == NOW_MS + 1
    flush = log.begin_flush()
    assert flush is not None
    append(log, now_ms=NOW_MS + 9)
    flush.run()
    log.finish_flush(flush)
    assert log.dirty_since_ms == NOW_MS + 9
    log.flush()
    assert log.dirty_since_ms is None
    append(log, now_ms=NOW_MS + 20)
    assert log.dirty_since_ms == NOW_MS + 20


def test_after_a_failed_sync_nothing_more_is_promised() -> None:
    faulty = FaultyFiles(MemoryFiles(), Random(0))
    log = open_log(faulty, flush_messages=4)
    append(log)
    append(log)
    faulty.fail_next_sync()
    with pytest.raises(StorageError, match="injected"):
        log.flush()
    assert log.high_watermark == 3
    assert log.failure is not None
    assert "could not be synced" in log.failure
    with pytest.raises(StorageError, match="takes no more records"):
        append(log)
    with pytest.raises(StorageError, match="takes no more records"):
        log.begin_flush()


def test_a_flush_of_a_log_that_was_deleted_meanwhile_says_nothing() -> None:
    log = open_log(MemoryFiles())
    append(log)
    flush = log.begin_flush()
    assert flush is not None
    log.move_away("t-0.gone-delete")
    flush.run()
    log.finish_flush(flush)
    assert (log.failure, log.log_end_offset, log.recovery_point) == (None, 0, 0)
    append(log)
    log.flush()
    assert log.recovery_point == 3


def test_what_is_durable_survives_a_crash() -> None:
    for seed in range(20):
        faulty = FaultyFiles(MemoryFiles(), Random(seed))
        log = open_log(faulty, flush_messages=1, segment_bytes=150)
        for _ in range(5):
            append(log)
        flush = log.begin_flush()
        assert flush is not None
        append(log)
        flush.run()
        log.finish_flush(flush)
        faulty.crash()
        assert open_log(faulty).log_end_offset >= 15


def test_a_write_that_failed_is_reported_until_one_succeeds() -> None:
    faulty = FaultyFiles(MemoryFiles(), Random(0))
    log = open_log(faulty)
    faulty.fail_next_write(after_bytes=7)
    with pytest.raises(StorageError):
        append(log)
    assert log.failure is not None
    assert "injected" in log.failure
    append(log)
    assert log.failure is None


def test_a_sync_of_a_deleted_log_writes_nothing_into_the_next_one() -> None:
    files = MemoryFiles()
    log = open_log(files, segment_bytes=150)
    for _ in range(3):
        append(log)
    flush = log.begin_flush()
    assert flush is not None
    log.move_away("t-0.gone-delete")
    again = open_log(files)
    append(again)
    flush.run()
    log.sync_rolled()
    assert not [name for name in files.list("t-0") if name.endswith(".snapshot")]
    assert (again.recovery_point, again.failure, log.failure) == (0, None, None)


class Failing(MemoryFiles):
    """`error`: what every sync and every replaced file raises."""

    error: StorageError | None = None
    only_snapshots = False

    def sync(self, path: str) -> None:
        if self.error is not None and not self.only_snapshots:
            raise self.error
        super().sync(path)

    def replace(self, path: str, data: Buffer, *, sync: bool = True) -> None:
        if self.error is not None and path.endswith(".snapshot"):
            raise self.error
        super().replace(path, data, sync=sync)


def test_a_snapshot_that_could_not_be_written_is_tried_again() -> None:
    files = Failing()
    log = open_log(files, segment_bytes=150)
    for _ in range(3):
        append(log)
    files.error, files.only_snapshots = StorageError("the disk is full"), True
    with pytest.raises(StorageError, match="full"):
        log.sync_rolled()
    append(log)
    files.error = None
    log.sync_rolled()
    assert (log.failure, log.rolled_segments) == (None, 0)


def test_a_sync_that_was_not_tried_ends_nothing() -> None:
    files = Failing()
    log = open_log(files)
    append(log)
    files.error = NotAccessible("too many files are open")
    flush = log.begin_flush()
    assert flush is not None
    with pytest.raises(NotAccessible):
        flush.run()
    log.finish_flush(flush, files.error)
    assert (log.failure, log.recovery_point) == (None, 0)
    append(log)
    files.error = None
    log.flush()
    assert log.recovery_point == 6


def test_a_clean_close_syncs_although_a_flush_is_under_way() -> None:
    faulty = FaultyFiles(MemoryFiles(), Random(3))
    log = open_log(faulty)
    append(log)
    assert log.begin_flush() is not None
    log.close()
    faulty.crash()
    assert open_log(faulty).log_end_offset == 3


class SyncedDirectories(MemoryFiles):
    """Remembers of which directories the names were synced."""

    def __init__(self) -> None:
        super().__init__()
        self.synced: list[str] = []

    def sync_directory(self, directory: str) -> None:
        super().sync_directory(directory)
        self.synced.append(directory)


def test_the_names_of_a_new_segments_files_are_synced_before_its_records_are_durable() -> None:
    files = SyncedDirectories()
    log = open_log(files, segment_bytes=100)
    append(log)
    log.flush()
    assert files.synced == ["t-0", ""], "the first files of a partition, and its directory"
    append(log)
    append(log)
    log.flush()
    assert len(log.snapshot().segments) == 2
    assert (log.recovery_point, files.synced[2:4]) == (9, ["t-0", ""])


def test_without_new_files_no_names_are_synced() -> None:
    files = SyncedDirectories()
    log = open_log(files)
    append(log)
    log.flush()
    files.synced.clear()
    append(log)
    log.flush()
    assert files.synced == []
