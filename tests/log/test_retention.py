"""Which of the oldest segments go: by the log's start, by size, by age."""

from typing import Any

import pytest

from ottla.log.append import Appended, LogRefusal
from ottla.log.checkpoints import EpochStart
from ottla.log.durability import Durability
from ottla.log.file_system import Buffer, Files, MemoryFiles
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import Segment
from ottla.log.segments import AgingSegment, LogRetention, Segments, expired_segments
from ottla.log.settings import LogSettings
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import encode_batch
from tests.support.kit.cleaning import append_from_client

SEGMENTS = [AgingSegment(10, 100, 1000), AgingSegment(20, 100, 3000), AgingSegment(30, 100, 2000), AgingSegment(40, 50, 5000)]
NOTHING: dict[str, Any] = {
    "log_start_offset": 0,
    "high_watermark": 40,
    "size_bytes": 350,
    "by_age_and_size": True,
    "retention_ms": -1,
    "retention_bytes": -1,
    "now_ms": 6000,
}


def expired(**given: Any) -> int:
    return expired_segments(lambda: SEGMENTS, **(NOTHING | given))


def test_without_limits_everything_stays() -> None:
    assert expired() == 0


def test_below_the_start_whole_segments_go_also_from_a_compacted_log() -> None:
    assert expired(log_start_offset=9) == 0
    assert expired(log_start_offset=10) == 1
    assert expired(log_start_offset=29) == 2
    assert expired(log_start_offset=30, by_age_and_size=False) == 3


def test_by_size_the_log_never_falls_below_its_limit() -> None:
    assert expired(retention_bytes=350) == 0
    assert expired(retention_bytes=251) == 0
    assert expired(retention_bytes=250) == 1
    assert expired(retention_bytes=0) == 4, "an active segment goes, too, when nothing is to be kept"
    assert expired(retention_bytes=0, by_age_and_size=False) == 0


def test_by_age_an_old_segment_behind_a_young_one_stays() -> None:
    assert expired(retention_ms=5000) == 0
    assert expired(retention_ms=4999) == 1
    assert expired(retention_ms=3500) == 1
    assert expired(retention_ms=2000) == 3
    assert expired(retention_ms=0) == 4
    assert expired(retention_ms=0, by_age_and_size=False) == 0


def test_nothing_above_the_high_watermark_goes() -> None:
    assert expired(retention_ms=0, high_watermark=29) == 2


def test_segments_are_looked_at_no_further_than_needed() -> None:
    seen = []

    def segments() -> Any:
        for segment in SEGMENTS:
            seen.append(segment)
            yield segment

    assert expired_segments(segments, **(NOTHING | {"retention_ms": 4999})) == 1
    assert seen == [SEGMENTS[0], SEGMENTS[0], SEGMENTS[1]]


def segment(files: Files, base_offset: int) -> Segment:
    made = Segment(files, "t-0", base_offset, index_interval_bytes=1, made_ms=0)
    made.create()
    return made


class Case:
    """Three segments with the base offsets 0, 10 and 20; the log ends at 30, and all was read until `start`."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("t-0")
        self.segments = Segments([segment(self.files, base) for base in (0, 10, 20)])
        self.durability = Durability(self.files, "t-0", offset=30, undurable=())
        self.rolls = 0

    def take(self, start: int, *, segments_max: int | None = None, can_roll: bool = True) -> tuple[str, ...] | None:
        def roll() -> bool:
            self.rolls += 1
            if can_roll:
                self.segments.add(segment(self.files, 30))
            return can_roll

        retention = LogRetention(self.files, segments=self.segments, durability=self.durability)
        return retention.take_expired(
            LogSettings(cleanup_policy="compact"),
            log_start_offset=start,
            high_watermark=30,
            log_end_offset=30,
            now_ms=0,
            segments_max=segments_max,
            roll=roll,
        )

    @property
    def bases(self) -> list[int]:
        return [each.base_offset for each in self.segments.all()]


def test_what_lies_below_the_logs_start_goes() -> None:
    case = Case()
    assert case.take(9) is None
    case.files.open("t-0/00000000000000000000.snapshot")
    names = case.take(20, segments_max=1)
    assert names is not None
    assert {name.rpartition("/")[2] for name in names} == {
        f"00000000000000000000{suffix}.deleted" for suffix in (".log", ".index", ".timeindex", ".snapshot")
    }
    assert all(case.files.exists(name) for name in names)
    assert (case.bases, case.rolls) == ([10, 20], 0)


def test_when_all_expires_a_new_segment_keeps_the_logs_end() -> None:
    case = Case()
    assert case.take(30)
    assert (case.bases, case.rolls) == ([30], 1)
    full = Case()
    assert full.take(30, can_roll=False)
    assert full.bases == [20], "none can be made: the last one stays"


def test_what_is_not_durable_stays() -> None:
    case = Case()
    case.durability.rolled(case.segments.all()[1], 20, b"")
    assert case.take(30)
    assert case.bases == [10, 20, 30]
    assert case.take(30) is None


NOW_MS = 1_000_000


def open_log(files: Files, *, log_start_offset: int = 0, recovery_point: int | None = None, **given: object) -> PartitionLog:
    settings: dict[str, object] = {"segment_bytes": 150, "retention_ms": -1} | given
    log = PartitionLog(files, "t-0", LogSettings(**settings))  # type: ignore[arg-type]
    log.open(NOW_MS, log_start_offset=log_start_offset, recovery_point=recovery_point)
    return log


def append(log: PartitionLog, timestamp_ms: int = NOW_MS) -> None:
    batch = encode_batch([Record(0, timestamp_ms, b"k", b"v" * 10)], producer_id=5, producer_epoch=0, base_sequence=log.log_end_offset)
    assert isinstance(append_from_client(log, batch, now_ms=NOW_MS), Appended)


def filled(files: Files, count: int = 6, **given: object) -> PartitionLog:
    """One record a segment of `count`, a second apart."""
    log = open_log(files, **given)
    for number in range(count):
        append(log, NOW_MS + number * 1000)
    return log


def expired_log_start(log: PartitionLog, now_ms: int) -> tuple[str, ...]:
    """What goes once full segments are durable."""
    paths = log.expire_segments(now_ms)
    if log.rolled_segments:
        log.sync_rolled()
        paths += log.expire_segments(now_ms)
    return paths


def bases(files: Files) -> list[int]:
    return [int(name[:20]) for name in files.list("t-0") if name.endswith(".log")]


def test_deleted_records_are_gone_at_once_and_their_segments_later() -> None:
    files = MemoryFiles()
    log = filled(files, segment_bytes=170)
    assert bases(files) == [0, 2, 4]
    assert log.delete_records(3) == 3
    assert (log.log_start_offset, log.read(2, 1000), bases(files)) == (3, None, [0, 2, 4])
    assert log.timestamps().first_at(0) == (NOW_MS + 3000, 3)
    assert log.read(3, 1000)
    deleted = expired_log_start(log, NOW_MS)
    assert bases(files) == [2, 4]
    assert all(path.endswith(".deleted") and files.exists(path) for path in deleted)
    assert expired_log_start(log, NOW_MS) == ()
    assert log.delete_records(1) == 3, "the start never goes back"


@pytest.mark.parametrize("before_offset", [7, -2, 2**62])
def test_no_more_than_there_is_can_be_deleted(before_offset: int) -> None:
    log = filled(MemoryFiles())
    refused = log.delete_records(before_offset)
    assert isinstance(refused, LogRefusal)
    assert refused.error is ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.log_start_offset == 0


def test_everything_can_be_deleted_and_offsets_go_on() -> None:
    files = MemoryFiles()
    log = filled(files)
    assert log.delete_records(-1) == 6
    expired_log_start(log, NOW_MS)
    assert (log.read(6, 1000), log.read(5, 1000)) == (b"", None)
    append(log)
    assert log.log_end_offset == 7
    assert [record.offset for record in log.read_records(6)] == [6]


def test_retention_by_size_counts_whole_segments() -> None:
    files = MemoryFiles()
    log = filled(files, segment_bytes=100)
    size = log.size_bytes // 6
    log.settings = LogSettings(segment_bytes=100, retention_ms=-1, retention_bytes=3 * size)
    expired_log_start(log, NOW_MS)
    assert (log.log_start_offset, bases(files), log.size_bytes) == (3, [3, 4, 5], 3 * size)
    assert log.leader_epochs == (EpochStart(0, 3),)


def test_retention_by_age_takes_the_active_segment_too() -> None:
    files = MemoryFiles()
    log = filled(files, segment_bytes=100, retention_ms=10_000)
    assert expired_log_start(log, NOW_MS + 12_000) != ()
    assert log.log_start_offset == 2
    expired_log_start(log, NOW_MS + 100_000)
    assert (log.log_start_offset, log.log_end_offset, bases(files)) == (6, 6, [6])
    assert expired_log_start(log, NOW_MS + 200_000) == ()
    log.close()
    again = open_log(files)
    assert (again.log_start_offset, again.log_end_offset) == (6, 6)
    append(again)
    assert again.log_end_offset == 7


def test_a_compacted_log_loses_only_what_lies_below_its_start() -> None:
    log = filled(MemoryFiles(), segment_bytes=100, retention_ms=1, retention_bytes=1, cleanup_policy="compact")
    assert expired_log_start(log, NOW_MS + 10**9) == ()
    log.delete_records(2)
    assert expired_log_start(log, NOW_MS + 10**9) != ()
    assert log.log_start_offset == 2


def test_the_start_comes_back_from_the_checkpoint() -> None:
    files = MemoryFiles()
    log = filled(files, segment_bytes=170)
    log.delete_records(3)
    log.close()
    again = open_log(files, log_start_offset=3, recovery_point=6)
    assert (again.log_start_offset, again.log_end_offset, again.read(2, 1000)) == (3, 6, None)
    assert open_log(files).log_start_offset == 2, "without a checkpoint it is the first segment's; what lay wholly below is gone"


def test_a_start_beyond_the_end_begins_again_there() -> None:
    files = MemoryFiles()
    filled(files).close()
    log = open_log(files, log_start_offset=50, recovery_point=50)
    assert (log.log_start_offset, log.log_end_offset, bases(files)) == (50, 50, [])
    append(log)
    assert (log.log_end_offset, bases(files)) == (51, [50])
    assert open_log(MemoryFiles(), log_start_offset=9).log_end_offset == 9


def test_a_recovery_point_says_what_is_read_again() -> None:
    files = MemoryFiles()
    log = filled(files, segment_bytes=100)
    log.close()
    damaged = bytearray(files.read_all("t-0/00000000000000000004.log"))
    damaged[-1] ^= 1
    files.replace("t-0/00000000000000000004.log", bytes(damaged))
    log = PartitionLog(files, "t-0", LogSettings(segment_bytes=100))
    assert log.open(NOW_MS, recovery_point=6).clean
    opened = PartitionLog(files, "t-0", LogSettings(segment_bytes=100)).open(NOW_MS, recovery_point=3)
    assert (opened.clean, opened.end_offset) == (False, 4)


def test_the_directory_gets_another_name_and_the_log_begins_again() -> None:
    files = MemoryFiles()
    log = filled(files)
    log.move_away("t-0.0123456789abcdef0123456789abcdef-delete")
    assert files.list("") == ["t-0.0123456789abcdef0123456789abcdef-delete"]
    assert (log.log_start_offset, log.log_end_offset) == (0, 0)
    append(log)
    assert bases(files) == [0]
    PartitionLog(files, "other-0", LogSettings()).move_away("nowhere-delete")
    assert "nowhere-delete" not in files.list("")


def test_on_a_full_disk_what_has_expired_goes_all_the_same() -> None:
    class Full(MemoryFiles):
        is_full = False

        def replace(self, path: str, data: Buffer, *, sync: bool = True) -> None:
            if self.is_full:
                raise StorageError(f"cannot write {path}: the disk is full")
            super().replace(path, data, sync=sync)

    files = Full()
    log = filled(files, segment_bytes=100, retention_ms=1)
    log.sync_rolled()
    append(log, NOW_MS + 6000)
    files.is_full = True
    assert log.rolled_segments == 1
    assert log.expire_segments(NOW_MS + 100_000) != ()
    assert (log.log_start_offset, bases(files)) == (5, [5, 6, 7]), "all but what is not durable yet; the end of the log stays"
    assert [record.offset for record in log.read_records(5)] == [5, 6]
    files.is_full = False
    append(log)
    assert log.failure is None
