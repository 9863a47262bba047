"""The segments in order: what is held in memory, gaps, and an empty list. Reading through them is tested with the log."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.log.append import Appended
from ottla.log.checkpoints import LOG_SUFFIX
from ottla.log.durability import Durability
from ottla.log.file_system import Files, MemoryFiles
from ottla.log.files import OsFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.log.segments import HalfSwapped, SegmentReplacement, Segments, is_full, make_ready, resolve_names
from ottla.log.settings import LogSettings
from ottla.log.transaction_state import AbortedTransactions
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import BatchHeader, encode_batch, read_header, split_batches
from tests.support.kit.cleaning import append_from_client

PER_SEGMENT = 10


def segments_at(files: OsFiles, bases: list[int]) -> Segments:
    """Each with ten records in batches of one, timestamps equal to offsets."""
    segments = Segments([])
    for base in bases:
        segment = Segment(files, "t-0", base, index_interval_bytes=1, made_ms=0)
        segment.create()
        for offset in range(base, base + PER_SEGMENT):
            batch = encode_batch([Record(offset, offset, None, b"value")], base_offset=offset)
            segment.append(batch)
            segment.note(offset, offset, len(batch))
        segment.write_indexes(final=True)
        segments.add(segment)
    return segments


def make_files(tmp_path: Path) -> OsFiles:
    files = OsFiles(tmp_path)
    files.make_directory("t-0")
    return files


def first_offset(data: bytes) -> int:
    return next(header.base_offset for _, header in split_batches(data))


def test_none_at_all() -> None:
    segments = Segments([])
    assert (len(segments), segments.start_offset, segments.size_bytes) == (0, 0, 0)
    assert segments.read(0, 100, at_least_one=True) == b""
    assert (segments.all(), list(segments.read_batches(0))) == ([], [])


def test_few_files_are_open_however_many_are_read(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    segments = segments_at(files, [0, 10, 20, 30, 40])
    segments.close()
    assert not files.opened
    for offset in [*range(50), *range(0, 50, 11)]:
        assert first_offset(segments.read(offset, 1, at_least_one=True)) == offset
        assert len(files.opened) <= 2


def test_a_gap_that_compaction_left_is_stepped_over(tmp_path: Path) -> None:
    segments = segments_at(make_files(tmp_path), [0, 100, 200])
    assert first_offset(segments.read(10, 1, at_least_one=True)) == 100
    assert first_offset(segments.read(150, 1, at_least_one=True)) == 200
    assert segments.read(210, 1, at_least_one=True) == b""
    assert [header.base_offset for header, _ in segments.read_batches(108)] == [108, 109, *range(200, 210)]


def test_segments_whose_files_go_away_are_found_no_more(tmp_path: Path) -> None:
    files = make_files(tmp_path)
    segments = segments_at(files, [0, 10])
    with pytest.raises(StorageError), segments.ending():
        raise StorageError("the directory cannot be renamed")
    assert len(segments.all()) == 2
    with segments.ending():
        assert not files.opened
    assert (segments.all(), len(segments)) == ([], 0)


def active(timestamp_ms: int = 1000) -> Segment:
    files = MemoryFiles()
    files.make_directory("t-0")
    segment = Segment(files, "t-0", 0, index_interval_bytes=1, made_ms=5000)
    segment.create()
    batch = encode_batch([Record(0, timestamp_ms, None, b"x" * 30)])
    segment.append(batch)
    segment.note(0, timestamp_ms, len(batch))
    return segment


def header(timestamp_ms: int) -> BatchHeader:
    return read_header(encode_batch([Record(0, timestamp_ms, None, b"")]))


def full(
    segment: Segment, *, timestamp_ms: int = 1000, end_offset: int = 2, size_bytes: int = 70, now_ms: int = 5000, **given: object
) -> bool:
    settings = LogSettings(**given)  # type: ignore[arg-type]
    return is_full(segment, header(timestamp_ms), end_offset=end_offset, size_bytes=size_bytes, settings=settings, now_ms=now_ms)


def test_an_empty_segment_is_never_full() -> None:
    files = MemoryFiles()
    files.make_directory("t-0")
    segment = Segment(files, "t-0", 0, index_interval_bytes=1, made_ms=0)
    segment.create()
    assert not full(segment, size_bytes=10**9, now_ms=10**12)


def test_by_bytes_and_by_offsets() -> None:
    segment = active()
    assert not full(segment, segment_bytes=segment.size + 70)
    assert full(segment, segment_bytes=segment.size + 69)
    assert not full(segment, end_offset=2**31)
    assert full(segment, end_offset=2**31 + 1)


def test_by_age_in_the_batches_own_time() -> None:
    assert not full(active(), timestamp_ms=1100, segment_ms=100)
    assert full(active(), timestamp_ms=1101, segment_ms=100)
    assert not full(active(-1), now_ms=5100, segment_ms=100)
    assert full(active(-1), now_ms=5101, segment_ms=100), "without timestamps, since it was made"


def test_jitter_brings_the_roll_forward_by_less_than_it_says() -> None:
    rolls = [timestamp for timestamp in range(1001, 1102) if full(active(), timestamp_ms=timestamp, segment_ms=100, segment_jitter_ms=60)]
    assert 1041 <= rolls[0] < 1101
    assert rolls == list(range(rolls[0], 1102))


def test_a_compacted_log_rolls_in_time_to_be_cleaned() -> None:
    assert not full(active(), timestamp_ms=1101, segment_ms=1000, max_compaction_lag_ms=100)
    assert full(active(), timestamp_ms=1101, segment_ms=1000, max_compaction_lag_ms=100, cleanup_policy="compact")
    assert not full(active(), timestamp_ms=1100, segment_ms=1000, max_compaction_lag_ms=100, cleanup_policy="compact")


class Case:
    """Three segments with the base offsets 0, 10 and 20, and a cleaned one for the first two."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("t-0")
        self.segments = Segments([self.segment(base) for base in (0, 10, 20)])
        self.durability = Durability(self.files, "t-0", offset=30, undurable=())
        self.segment(0, ".cleaned").close()
        make_ready(self.files, "t-0/00000000000000000000")

    def segment(self, base_offset: int, suffix: str = "") -> Segment:
        made = Segment(self.files, "t-0", base_offset, index_interval_bytes=1, made_ms=base_offset, file_suffix=suffix)
        made.create()
        return made

    def replace(self, *bases: int) -> tuple[str, ...] | None:
        replacement = SegmentReplacement(
            self.files, "t-0", segments=self.segments, durability=self.durability, aborted=AbortedTransactions()
        )
        return replacement.replace(bases[0], bases, log_end_offset=30, index_interval_bytes=1)

    def swaps(self) -> list[str]:
        return [name for name in self.files.list("t-0") if name.endswith(".swap")]


def test_segments_are_replaced() -> None:
    case = Case()
    deleted = case.replace(0, 10)
    assert deleted is not None
    assert sorted(name for name in deleted if ".log" in name) == [f"t-0/{base:020d}.log.deleted" for base in (0, 10)]
    assert [(each.base_offset, each.made_ms) for each in case.segments.all()] == [(0, 10), (20, 20)]
    assert case.swaps() == []


@pytest.mark.parametrize("bases", [(0, 20), (0, 10, 20), (5, 10)])
def test_segments_that_are_not_neighbours_or_active_are_not_replaced(bases: tuple[int, ...]) -> None:
    case = Case()
    assert case.replace(*bases) is None
    assert len(case.segments) == 3
    assert len(case.swaps()) == (0 if bases[0] == 0 else 3), "files of another base offset are left alone"


def test_without_finished_files_nothing_happens() -> None:
    case = Case()
    assert case.replace(0, 10)
    assert case.replace(0) is None


def test_after_half_a_swap_the_log_takes_no_more_records(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()

    def fail(old: str, new: str) -> None:
        raise StorageError("the disk fails")

    monkeypatch.setattr(case.files, "rename", fail)
    with pytest.raises(HalfSwapped):
        case.replace(0, 10)
    assert "interrupted" in (case.durability.broken or "")


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
