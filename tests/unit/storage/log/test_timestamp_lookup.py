"""Offsets by timestamp, looked up beside a log that changes. What is found in a log at rest is tested in test_partition_log.py."""

from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import HEADER_BYTES, encode_batch, join_batch, read_header
from ottla.core.records.record_checks import find_timestamp
from ottla.storage.files import OsFiles
from ottla.storage.log.partition_log import PartitionLog
from ottla.storage.log.settings import LogSettings
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.kit.cleaning import append_from_client, clean_now

NOW_MS = 1_000_000
SMALL_SEGMENTS = LogSettings(segment_bytes=100, retention_ms=-1, index_interval_bytes=1)


def make_log(files: OsFiles | MemoryFiles, settings: LogSettings = SMALL_SEGMENTS, *, records: int = 0) -> PartitionLog:
    """Each record in a segment of its own, a millisecond apart, with a key of its own but for the last two."""
    log = PartitionLog(files, "t-0", settings)
    log.open(NOW_MS)
    for number in range(records):
        append(log, NOW_MS + number, b"k%d" % min(number, records - 2))
    return log


def append(log: PartitionLog, timestamp_ms: int, key: bytes = b"k") -> None:
    append_from_client(log, encode_batch([Record(0, timestamp_ms, key, b"v" * 10)]), now_ms=NOW_MS)


def first_times(log: PartitionLog, records: int) -> list[tuple[int, int] | None]:
    return [log.timestamps().first_at(NOW_MS + number) for number in range(records + 1)]


@pytest.mark.parametrize("make_files", [lambda _: MemoryFiles(), OsFiles])
def test_a_log_at_rest(tmp_path: Path, make_files: Callable[[Path], OsFiles | MemoryFiles]) -> None:
    files = make_files(tmp_path)
    log = make_log(files, records=5)
    expected = [(NOW_MS + number, number) for number in range(5)]
    assert [*first_times(log, 5)] == [*expected, None]
    assert log.timestamps().latest() == expected[-1]
    log.close()
    again = make_log(files)
    assert [*first_times(again, 5)] == [*expected, None]
    assert again.timestamps().latest() == expected[-1]


def test_a_log_that_was_just_opened_stays_as_it_is(tmp_path: Path) -> None:
    make_log(OsFiles(tmp_path), records=5).close()
    files = OsFiles(tmp_path)
    log = make_log(files)
    names = files.list("t-0")
    lookup = log.timestamps()
    files.opened.clear()
    assert lookup.first_at(NOW_MS + 2) == (NOW_MS + 2, 2)
    assert (files.opened, files.list("t-0")) == ({}, names)


@pytest.mark.parametrize("suffix", [".timeindex", ".index"])
@pytest.mark.parametrize("damage", ["gone", "misaligned", "wrong"])
def test_a_damaged_index_is_not_needed_and_not_changed(suffix: str, damage: str) -> None:
    files = MemoryFiles()
    make_log(files, LogSettings(segment_bytes=250, index_interval_bytes=1), records=9).close()
    log = make_log(files)
    path = "t-0/00000000000000000000" + suffix
    if damage == "gone":
        files.remove(path)
    else:
        files.replace(
            path,
            b"odd"
            if damage == "misaligned"
            else bytes(8) + b"\0\0\0\x01" + bytes(8) + b"\0\0\0\x02"
            if suffix == ".index"
            else b"\xff" * 12,
        )
    held = files.read_all(path) if files.exists(path) else None
    assert [*first_times(log, 9)] == [*((NOW_MS + number, number) for number in range(9)), None]
    assert (files.read_all(path) if files.exists(path) else None) == held


def test_the_search_goes_on_behind_what_lies_below_the_start() -> None:
    log = make_log(MemoryFiles(), LogSettings(), records=1)
    append_from_client(log, encode_batch([Record(number, NOW_MS + 9 - number, b"k", b"v") for number in range(3)]), now_ms=NOW_MS)
    append(log, NOW_MS + 8)
    log.delete_records(3)
    lookup = log.timestamps()
    assert lookup.first_at(NOW_MS + 8) == (NOW_MS + 8, 4)
    assert lookup.first_at(0) == (NOW_MS + 7, 3)
    assert lookup.latest() is None, "the largest timestamp is known by its batch, of which the record is deleted"


def lying(timestamp_ms: int) -> bytearray:
    batch = encode_batch([Record(number, NOW_MS, b"k", b"v") for number in range(3)])
    return join_batch(read_header(batch)._replace(max_timestamp_ms=timestamp_ms), batch[HEADER_BYTES:])


def test_of_batches_that_claim_a_timestamp_falsely_one_is_read() -> None:
    log = make_log(MemoryFiles(), LogSettings())
    for _ in range(4):
        append_from_client(log, lying(NOW_MS + 50), now_ms=NOW_MS)
    append(log, NOW_MS + 20)
    read = []

    def find(*given):
        read.append(given)
        return find_timestamp(*given)

    assert log.timestamps().first_at(NOW_MS + 20, find) == (NOW_MS + 50, 2)
    assert log.timestamps().latest(find) == (NOW_MS + 50, 2)
    assert len(read) == 2


def test_a_damaged_batch_is_an_error() -> None:
    files = MemoryFiles()
    log = make_log(files, LogSettings(), records=2)
    data = bytearray(files.read_all("t-0/00000000000000000000.log"))
    data[70] ^= 1
    files.replace("t-0/00000000000000000000.log", data)
    log.close(clean=False)
    with pytest.raises(StorageError, match=r"the batch at offset 0 of t-0/0+\.log cannot be read: .* checksum"):
        log.timestamps().first_at(0)


class Interrupting(OsFiles):
    """Calls `act` once, before anything is read of the segment that begins at `path`."""

    path = "-"
    act: Callable[[], object] = staticmethod(lambda: None)

    def _interrupt(self, path: str) -> None:
        if path.startswith(self.path):
            act, self.act = self.act, lambda: None
            act()

    def read_range(self, path: str, position: int, length: int) -> bytes:
        self._interrupt(path)
        return super().read_range(path, position, length)

    def read_all(self, path: str) -> bytes:
        self._interrupt(path)
        return super().read_all(path)


def just_opened(tmp_path: Path, settings: LogSettings, records: int) -> tuple[Interrupting, PartitionLog]:
    make_log(OsFiles(tmp_path), settings, records=records).close()
    files = Interrupting(tmp_path)
    return files, make_log(files, settings)


def test_segments_that_retention_takes_meanwhile(tmp_path: Path) -> None:
    files, log = just_opened(tmp_path, SMALL_SEGMENTS, 5)
    files.path = "t-0/00000000000000000001"
    log.settings = LogSettings(segment_bytes=100, retention_ms=1)

    def expire() -> None:
        for path in log.expire_segments(NOW_MS + 5):
            files.remove(path)
        assert log.log_start_offset > 2

    files.act = expire
    assert log.timestamps().first_at(NOW_MS + 1) == (NOW_MS + 4, 4)
    assert log.log_start_offset == 4


def test_segments_that_the_cleaner_replaces_meanwhile(tmp_path: Path) -> None:
    settings = LogSettings(segment_bytes=100, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    files, log = just_opened(tmp_path, settings, 6)
    log.settings = LogSettings(segment_bytes=1000, cleanup_policy="compact", min_cleanable_dirty_ratio=0.0)
    files.path = "t-0/00000000000000000002"
    files.act = lambda: clean_now(files, log, now_ms=NOW_MS)
    before = files.list("t-0")
    assert log.timestamps().first_at(NOW_MS + 3) == (NOW_MS + 3, 3)
    assert files.list("t-0") != before, "segments were cleaned in the middle of the search"


def test_a_log_that_goes_away_meanwhile(tmp_path: Path) -> None:
    files, log = just_opened(tmp_path, SMALL_SEGMENTS, 5)
    files.path = "t-0/00000000000000000002"
    fresh: list[PartitionLog] = []

    def act() -> None:
        log.move_away("t-0.gone-delete")
        fresh.append(make_log(files, records=1))

    files.act = act
    lookup = log.timestamps()
    assert lookup.first_at(NOW_MS + 3) is None
    assert lookup.latest() is None
    assert fresh[0].timestamps().latest() == (NOW_MS, 0), "the next log of that name is untouched"


def test_what_is_appended_meanwhile_does_no_harm(tmp_path: Path) -> None:
    files, log = just_opened(tmp_path, SMALL_SEGMENTS, 3)
    files.path = "t-0/00000000000000000001"
    files.act = lambda: [append(log, NOW_MS + 10) for _ in range(3)]
    assert log.timestamps().first_at(NOW_MS + 3) in (None, (NOW_MS + 10, 3))
    assert log.timestamps().first_at(NOW_MS + 3) == (NOW_MS + 10, 3)
