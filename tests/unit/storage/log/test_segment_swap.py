"""Names that change while segments are exchanged: whatever step a crash interrupts, the log is as before or as after."""

from collections.abc import Iterator

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage.file_system import Files
from ottla.storage.log.file_names import LOG_SUFFIX
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.segment import Segment
from ottla.storage.log.segment_swap import HalfSwapped, make_ready, resolve_names
from ottla.storage.log.settings import LogSettings
from ottla.storage.log.validation import Appended
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.kit.cleaning import append_from_client

NOW_MS = 1_000_000
SETTINGS = LogSettings(segment_bytes=150, cleanup_policy="compact")


class Stopped(Exception):
    """The process dies here."""


class StoppingFiles(MemoryFiles):
    """Counts the changes of names and stops before the given one."""

    def __init__(self) -> None:
        super().__init__()
        self.stop_before = -1
        self.changes = 0

    def _change(self) -> None:
        if self.changes == self.stop_before:
            raise Stopped
        self.changes += 1

    def rename(self, old: str, new: str) -> None:
        self._change()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._change()
        super().remove(path)


def open_log(files: Files) -> PartitionLog:
    log = PartitionLog(files, "t-0", SETTINGS)
    log.open(NOW_MS)
    return log


def written(files: Files, count: int = 6) -> PartitionLog:
    """Segments of two records each; keys repeat, so that the first two segments are worth one record."""
    log = open_log(files)
    for number in range(count):
        batch = encode_batch([Record(0, NOW_MS + number, b"k", b"%d" % number)])
        assert isinstance(append_from_client(log, batch, now_ms=NOW_MS), Appended)
    log.flush()
    return log


def cleaned(files: Files, log: PartitionLog) -> None:
    """What a cleaner has written that found only offset 3 worth keeping of the segments at 0 and 2."""
    segment = Segment(files, "t-0", 0, index_interval_bytes=100, made_ms=NOW_MS, file_suffix=".cleaned")
    segment.create()
    kept = encode_batch([Record(3, NOW_MS + 3, b"k", b"3")], base_offset=3)
    segment.append(kept)
    segment.note(3, NOW_MS + 3, len(kept))
    segment.write_indexes(final=True)
    segment.sync_all()
    segment.close()


def exchange(files: Files, log: PartitionLog) -> tuple[str, ...] | None:
    make_ready(files, "t-0/00000000000000000000")
    return log.swap_segments(0, [0, 2])


def offsets(log: PartitionLog) -> list[int]:
    return [record.offset for record in log.read_records(log.log_start_offset)]


def test_segments_are_exchanged_while_the_log_is_in_use() -> None:
    files = MemoryFiles()
    log = written(files)
    assert [segment.base_offset for segment in log.snapshot().segments] == [0, 2]
    cleaned(files, log)
    deleted = exchange(files, log)
    assert deleted is not None
    suffixes = [(0, ".index"), (0, ".log"), (0, ".timeindex"), (2, ".index"), (2, ".log"), (2, ".snapshot"), (2, ".timeindex")]
    assert sorted(deleted) == [f"t-0/{base:020d}{suffix}.deleted" for base, suffix in suffixes]
    assert all(files.exists(path) for path in deleted)
    assert offsets(log) == [3, 4, 5]
    assert (log.log_start_offset, log.log_end_offset) == (0, 6)
    assert log.read(0, 10_000) is not None
    assert offsets(open_log(files)) == [3, 4, 5]
    assert not any(files.exists(path) for path in deleted)


def test_finished_files_are_made_ready_before_any_name_of_the_log_changes() -> None:
    files = MemoryFiles()
    log = written(files)
    files.open("t-0/00000000000000000000.txnindex.swap").append(b"of a cleaning whose swap was never asked for")
    cleaned(files, log)
    make_ready(files, "t-0/00000000000000000000")
    assert [name for name in files.list("t-0") if name.endswith((".cleaned", ".swap"))] == [
        f"{0:020d}{suffix}.swap" for suffix in (".index", ".log", ".timeindex")
    ]
    assert offsets(log) == [0, 1, 2, 3, 4, 5]
    assert log.swap_segments(0, [0, 2]) is not None
    assert offsets(log) == [3, 4, 5]
    assert offsets(open_log(files)) == [3, 4, 5]


def test_a_segment_that_has_gone_meanwhile_is_not_exchanged() -> None:
    files = MemoryFiles()
    log = written(files)
    cleaned(files, log)
    log.delete_records(2)
    log.sync_rolled()
    log.expire_segments(NOW_MS)
    assert exchange(files, log) is None
    assert not [name for name in files.list("t-0") if name.endswith((".cleaned", ".swap"))]
    assert offsets(log) == [2, 3, 4, 5]


def test_the_active_segment_is_never_exchanged() -> None:
    log = written(MemoryFiles())
    assert log.swap_segments(2, [2, 4]) is None
    assert log.swap_segments(4, [4]) is None
    assert log.swap_segments(0, [0, 4]) is None


def crashes() -> Iterator[StoppingFiles]:
    """The files as they are when the process dies before each change of a name in an exchange, until it lives through all of them."""
    for stop_before in range(100):
        files = StoppingFiles()
        log = written(files)
        cleaned(files, log)
        files.changes, files.stop_before = 0, stop_before
        try:
            exchange(files, log)
        except Stopped:
            files.stop_before = -1
            yield files
        else:
            assert stop_before == 13, "3 names to .swap, 7 to .deleted, 3 to their own"
            return


def test_a_crash_at_any_step_leaves_the_log_as_before_or_as_after() -> None:
    seen = set()
    for files in crashes():
        log = open_log(files)
        found = offsets(log)
        assert found in ([0, 1, 2, 3, 4, 5], [3, 4, 5]), files.list("t-0")
        seen.add(len(found))
        assert log.log_end_offset == 6
        assert not [name for name in files.list("t-0") if name.endswith((".swap", ".cleaned", ".deleted"))]
        assert isinstance(append_from_client(log, encode_batch([Record(0, NOW_MS, b"k", b"6")]), now_ms=NOW_MS), Appended)
    assert seen == {6, 3}


def test_a_crash_while_names_are_resolved_is_resolved_again() -> None:
    for first in crashes():
        names = {name: first.read_all(f"t-0/{name}") for name in first.list("t-0")}
        for stop_before in range(20):
            files = StoppingFiles()
            files.make_directory("t-0")
            for name, data in names.items():
                files.open(f"t-0/{name}").append(data)
            files.stop_before = stop_before
            try:
                resolve_names(files, "t-0")
            except Stopped:
                files.stop_before = -1
                assert offsets(open_log(files)) in ([0, 1, 2, 3, 4, 5], [3, 4, 5])
            else:
                break


def test_a_swap_at_or_above_an_unfinished_cleaning_is_undone() -> None:
    files = MemoryFiles()
    log = written(files)
    log.close()
    for name in ("00000000000000000000.log.swap", "00000000000000000000.index.cleaned"):
        files.open(f"t-0/{name}").append(b"")
    assert offsets(open_log(files)) == [0, 1, 2, 3, 4, 5]


def test_a_damaged_swap_is_not_served() -> None:
    files = MemoryFiles()
    written(files).close()
    files.open("t-0/00000000000000000002.log.swap").append(b"\xff" * 80)
    log = open_log(files)
    with pytest.raises(StorageError, match="damaged"):
        log.read(2, 1000)
    assert files.exists("t-0/00000000000000000002" + LOG_SUFFIX)


def test_without_finished_files_nothing_is_exchanged() -> None:
    files = MemoryFiles()
    log = written(files)
    assert log.swap_segments(0, [0, 2]) is None
    assert offsets(log) == [0, 1, 2, 3, 4, 5]


def test_a_disk_that_fails_in_the_middle_ends_the_log_until_it_is_opened_again() -> None:
    class Failing(MemoryFiles):
        renames_left = 1000

        def rename(self, old: str, new: str) -> None:
            self.renames_left -= 1
            if self.renames_left < 0:
                raise StorageError(f"cannot rename {old}")
            super().rename(old, new)

    for renames in range(10):
        files = Failing()
        log = written(files)
        cleaned(files, log)
        make_ready(files, "t-0/00000000000000000000")
        files.renames_left = renames
        with pytest.raises(HalfSwapped, match="opened again"):
            log.swap_segments(0, [0, 2])
        assert log.failure is not None
        with pytest.raises(StorageError, match="opened again"):
            append_from_client(log, encode_batch([Record(0, NOW_MS, b"k", b"6")]), now_ms=NOW_MS)
        files.renames_left = 1000
        assert offsets(open_log(files)) == [3, 4, 5]
