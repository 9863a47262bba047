"""The cleaner dies at every write, sync and rename, one after the other: the log is as before or as after, and cleans up to the same end.

Dying is one of two things: the process is killed (all that was done is done), or the power fails (what was not synced is kept, lost or torn
by chance).
"""

from collections.abc import Iterator
from random import Random

import pytest

from ottla.log.append import Appended
from ottla.log.file_system import MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from ottla.protocol.records.control import ControlType, EndMarker
from tests.support.kit.cleaning import clean_now, records
from tests.support.kit.end_markers import encode_end_marker
from tests.support.kit.faulty_files import FaultyFiles

NOW_MS = 1_000_000
# Two records a segment; cleaned segments are joined, up to three of them.
SETTINGS = LogSettings(segment_bytes=220, cleanup_policy="compact", index_interval_bytes=1)
KEYS = [b"a", b"b", b"a", b"c", b"b", b"b", b"d", b"a", b"e", b"e", b"c", b"f"]


class Died(Exception):
    """Nothing more is done."""


class MortalFiles(FaultyFiles):
    """Counts what changes the disk and dies before the given step, or tears that write."""

    def __init__(self, inner: MemoryFiles, random: Random) -> None:
        super().__init__(inner, random)
        self.steps = 0
        self.dies_at: int | None = None

    def _step(self) -> None:
        if self.steps == self.dies_at:
            raise Died
        self.steps += 1

    def take_write_failure(self) -> int | None:
        self._step()
        return super().take_write_failure()

    def rename(self, old: str, new: str) -> None:
        self._step()
        super().rename(old, new)

    def remove(self, path: str) -> None:
        self._step()
        super().remove(path)

    def sync(self, path: str) -> None:
        self._step()
        super().sync(path)

    def sync_directory(self, directory: str) -> None:
        self._step()
        super().sync_directory(directory)


def open_log(files: MortalFiles) -> PartitionLog:
    log = PartitionLog(files, "t-0", SETTINGS)
    log.open(NOW_MS)
    return log


def append(log: PartitionLog, batch: bytearray) -> None:
    assert isinstance(log.append(batch, now_ms=NOW_MS, from_client=False), Appended)


def written(seed: int) -> tuple[MortalFiles, PartitionLog]:
    """A durable log with an aborted transaction in it."""
    files = MortalFiles(MemoryFiles(), Random(seed))
    log = open_log(files)
    producer = {"producer_id": 7, "producer_epoch": 0}
    append(log, encode_batch([Record(0, NOW_MS, b"a", b"aborted")], **producer, base_sequence=0, is_transactional=True))  # type: ignore[arg-type]
    marker = Record(0, NOW_MS, *encode_end_marker(EndMarker(ControlType.ABORT, 0)))
    append(log, encode_batch([marker], **producer, is_transactional=True, is_control=True))  # type: ignore[arg-type]
    for number, key in enumerate(KEYS):
        append(log, encode_batch([Record(0, NOW_MS + number, key, b"%d" % number)]))
    log.flush()
    log.close()
    files.sync_directory("t-0")
    files.sync_directory("")
    log = open_log(files)
    log.flush()
    return files, log


def cleaned(log: PartitionLog, files: MortalFiles) -> list[Record]:
    clean_now(files, log, now_ms=NOW_MS)
    return records(log)


def steps() -> Iterator[int]:
    files, log = written(0)
    before = files.steps
    cleaned(log, files)
    return iter(range(files.steps - before))


def check(files: MortalFiles, before: list[Record], after: list[Record], end_offset: int) -> None:
    log = open_log(files)
    found = records(log)
    assert log.log_end_offset == end_offset
    assert [record for record in before if record in found] == found, "records that were not there, or in another order"
    assert [record for record in after if record in found] == after, "a key's last record is gone"
    assert [name for name in files.list("t-0") if name.endswith((".cleaned", ".swap", ".deleted"))] == []
    log.flush()
    assert cleaned(log, files) == after
    assert all(0 <= aborted.first_offset < aborted.last_offset for aborted in log.aborted_transactions(0, end_offset))


@pytest.mark.parametrize("step", list(steps()))
def test_a_killed_cleaner_leaves_the_log_as_before_or_as_after(step: int) -> None:
    files, log = written(0)
    before, end_offset = records(log), log.log_end_offset
    after = expected()
    files.dies_at = files.steps + step
    with pytest.raises(Died):
        cleaned(log, files)
    files.dies_at = None
    check(files, before, after, end_offset)


@pytest.mark.parametrize("step", list(steps()))
def test_so_does_a_power_failure(step: int) -> None:
    after = expected()
    for seed in range(20):
        files, log = written(seed)
        before, end_offset = records(log), log.log_end_offset
        files.dies_at = files.steps + step
        with pytest.raises(Died):
            cleaned(log, files)
        files.dies_at = None
        files.crash()
        check(files, before, after, end_offset)


def expected() -> list[Record]:
    files, log = written(0)
    return cleaned(log, files)


def test_a_torn_write_is_not_swapped_in() -> None:
    files, log = written(0)
    before = records(log)
    files.fail_next_write(after_bytes=50)
    with pytest.raises(Exception, match="injected"):
        cleaned(log, files)
    assert records(log) == before
    assert cleaned(log, files) == expected()


def test_a_failed_sync_is_not_swapped_in() -> None:
    files, log = written(0)
    before = records(log)
    files.fail_next_sync()
    with pytest.raises(Exception, match="injected"):
        cleaned(log, files)
    assert records(log) == before
    assert cleaned(log, files) == expected()
