"""A partition's log from its first append on: offsets, duplicates, rolling, reading, times, durability, failures."""

import base64
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from uuid import UUID

import pytest

from ottla.log.append import Appended, LogRefusal
from ottla.log.checkpoints import EpochStart
from ottla.log.file_system import Files, MemoryFiles
from ottla.log.files import OsFiles
from ottla.log.leader_epochs import EpochEnd, LeaderEpochs, make_directory
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.protocol.errors import BatchTooLarge, ErrorCode, StorageError
from ottla.protocol.model import Header, Record
from ottla.protocol.records.batch import decode_batch, encode_batch, encode_records, read_header, seal, split_batches
from ottla.protocol.records.compression import GZIP, NONE
from tests.support.kit.faulty_files import FaultyFiles

NOW_MS = 1_000_000
LOG = "t-0/00000000000000000000.log"


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    return OsFiles(tmp_path / "data") if request.param == "disk" else MemoryFiles()


def open_log(files: Files, **settings: object) -> PartitionLog:
    log = PartitionLog(files, "t-0", LogSettings(**settings))  # type: ignore[arg-type]
    log.open(NOW_MS)
    return log


def batch_of(count: int = 3, *, timestamp_ms: int = NOW_MS, value: bytes = b"value", **given: object) -> bytearray:
    records = [Record(number, timestamp_ms + number, b"key %d" % number, value) for number in range(count)]
    return encode_batch(records, **given)  # type: ignore[arg-type]


def appended(log: PartitionLog, batch: bytearray, now_ms: int = NOW_MS) -> Appended:
    result = log.append(batch, now_ms=now_ms)
    assert isinstance(result, Appended), result
    return result


def refused(log: PartitionLog, batch: bytearray) -> ErrorCode:
    end, size = log.log_end_offset, log.size_bytes
    result = log.append(batch, now_ms=NOW_MS)
    assert isinstance(result, LogRefusal), result
    assert (log.log_end_offset, log.size_bytes) == (end, size)
    return result.error


def test_nothing_is_made_before_the_first_append(files: Files) -> None:
    log = open_log(files)
    log.flush()
    log.close()
    assert files.list("") == []
    assert (log.log_start_offset, log.log_end_offset, log.high_watermark, log.size_bytes) == (0, 0, 0, 0)
    assert log.read(0, 1000) == b""
    assert log.read(1, 1000) is None
    assert (log.timestamps().latest(), log.timestamps().first_at(0), list(log.read_records(0))) == (None, None, [])


def test_the_first_append_makes_kafkas_files(files: Files) -> None:
    topic_id = UUID("e35ed235-7a6a-441c-a94d-c444079c8ef3")
    log = PartitionLog(files, "flights-0", LogSettings(), topic_id=topic_id, leader_epoch=4)
    log.open(NOW_MS)
    appended(log, batch_of())
    name = "0" * 20
    assert files.list("flights-0") == [f"{name}.index", f"{name}.log", f"{name}.timeindex", "leader-epoch-checkpoint", "partition.metadata"]
    assert files.read_all("flights-0/leader-epoch-checkpoint") == b"0\n1\n4 0\n"
    assert base64.urlsafe_b64encode(topic_id.bytes).rstrip(b"=") in files.read_all("flights-0/partition.metadata")


def test_offsets_and_epoch_are_written_into_the_batch(files: Files) -> None:
    log = open_log(files)
    log.leader_epoch = 7
    first, second = batch_of(3), batch_of(2, codec=GZIP)
    assert appended(log, first) == (0, 2, -1, 0)
    assert appended(log, second) == (3, 4, -1, 0)
    assert (log.log_end_offset, log.high_watermark, log.size_bytes) == (5, 5, len(first) + len(second))
    assert read_header(second)[:3] == (3, len(second) - 12, 7)
    assert files.read_all(LOG) == first + second
    assert [record.offset for record in decode_batch(second)] == [3, 4]


def test_a_view_of_a_larger_buffer_is_appended_as_it_is(files: Files) -> None:
    log = open_log(files)
    frame = bytearray(b"head") + batch_of() + b"tail"
    assert isinstance(log.append(memoryview(frame)[4:-4], now_ms=NOW_MS), Appended)
    assert files.read_all(LOG) == frame[4:-4]
    assert isinstance(log.append(memoryview(bytearray(batch_of() + b"a few more")), now_ms=NOW_MS), Appended)
    assert len(files.read_all(LOG)) == 2 * len(batch_of())


def test_what_is_refused_leaves_no_trace(files: Files) -> None:
    log = open_log(files)
    torn = batch_of()
    torn[-1] ^= 1
    assert refused(log, torn) is ErrorCode.CORRUPT_MESSAGE
    assert refused(log, batch_of() * 2) is ErrorCode.INVALID_RECORD
    assert files.list("") == []


def test_log_append_time(files: Files) -> None:
    log = open_log(files, message_timestamp_type="LogAppendTime")
    batch = batch_of(3, timestamp_ms=5)
    assert appended(log, batch) == (0, 2, NOW_MS, 0)
    assert read_header(batch).is_log_append_time
    assert [record.timestamp_ms for record in log.read_records(0)] == [NOW_MS] * 3
    assert log.timestamps().latest() == (NOW_MS, 0)
    log.settings = LogSettings()
    # as Kafka: in a topic of the other kind the mark is taken off again
    marked = batch_of(1, is_log_append_time=True, timestamp_ms=77)
    assert appended(log, marked).log_append_time_ms == -1
    assert next(log.read_records(3)).timestamp_ms == 77


def test_own_records(files: Files) -> None:
    log = open_log(files, max_message_bytes=10)
    records = [Record(99, 50 + number, b"k", None, (Header("h", b"v"),)) for number in range(3)]
    assert log.append_records(records, now_ms=NOW_MS) == (0, 2, -1, 0)
    assert log.append_records(records[:1], now_ms=NOW_MS) == (3, 3, -1, 0)
    assert list(log.read_records(1)) == [records[1]._replace(offset=1), records[2]._replace(offset=2), records[0]._replace(offset=3)]
    assert [header.base_offset for header, _ in log.read_batches(2)] == [0, 3]


def test_own_batches_may_be_several_and_control_records(files: Files) -> None:
    log = open_log(files)
    marker = encode_batch([Record(0, NOW_MS, b"\0\0\0\1", b"\0\0\0\0\0\0")], is_control=True)
    both = batch_of(2) + marker
    assert log.append(both, now_ms=NOW_MS, from_client=False) == (0, 2, -1, 0)
    assert [header.base_offset for _, header in split_batches(files.read_all(LOG))] == [0, 2]
    assert [record.offset for record in log.read_records(0)] == [0, 1]
    assert [record.offset for _, records in log.read_batches(0) for record in records] == [0, 1, 2]
    spoiled = batch_of()
    spoiled[-1] ^= 1
    for junk in (bytearray(), batch_of()[:-1], batch_of() + b"x", bytearray(100), spoiled):
        assert isinstance(log.append(junk, now_ms=NOW_MS, from_client=False), LogRefusal)
    assert log.log_end_offset == 3


def test_a_repeated_batch_is_answered_and_not_appended(files: Files) -> None:
    log = open_log(files)
    for sequence in (0, 3, 6):
        appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=sequence))
    size = log.size_bytes
    assert appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=3))[:2] == (3, 5)
    assert (log.size_bytes, log.log_end_offset) == (size, 9)
    assert refused(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=12)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert refused(log, batch_of(producer_id=9, producer_epoch=-1, base_sequence=9)) is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize("clean", [True, False])
def test_producers_are_remembered_across_a_restart(files: Files, clean: bool) -> None:
    log = open_log(files)
    for sequence in (0, 3):
        appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=sequence))
    log.close(clean=clean)
    log = open_log(files)
    assert appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=3))[:2] == (3, 5)
    assert refused(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=9)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=6))[:2] == (6, 8)


def test_producers_are_forgotten_after_a_day(files: Files) -> None:
    log = open_log(files)
    appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=0))
    assert log.expire_producers(NOW_MS + 86_400_001) == 0
    assert log.expire_producers(NOW_MS + 86_400_002) == 1
    assert appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=77)).base_offset == 3


def base_offsets(files: Files) -> list[int]:
    return [int(name[:20]) for name in files.list("t-0") if name.endswith(".log")]


def test_a_segment_ends_before_it_is_too_large(files: Files) -> None:
    size = len(batch_of())
    log = open_log(files, segment_bytes=3 * size)
    for _ in range(7):
        appended(log, batch_of())
    assert base_offsets(files) == [0, 9, 18]
    assert [files.size(f"t-0/{base:020d}.log") for base in (0, 9, 18)] == [3 * size, 3 * size, size]
    assert log.size_bytes == 7 * size


def test_a_segment_ends_when_it_is_too_old_by_the_batches_time(files: Files) -> None:
    log = open_log(files, segment_ms=1000)
    for timestamp_ms in (5000, 5998, 4000, 6002):
        appended(log, batch_of(1, timestamp_ms=timestamp_ms))
    assert base_offsets(files) == [0, 3]
    log.close()
    log = open_log(files, segment_ms=1000)
    for timestamp_ms in (7002, 7003):
        appended(log, batch_of(1, timestamp_ms=timestamp_ms))
    assert base_offsets(files) == [0, 3, 5]


def test_without_timestamps_age_is_the_brokers_time(files: Files) -> None:
    log = open_log(files, segment_ms=1000)
    for now_ms in (NOW_MS, NOW_MS + 1000, NOW_MS + 1001):
        appended(log, encode_batch([Record(0, -1, None, b"")]), now_ms)
    assert base_offsets(files) == [0, 2]


def test_a_segment_ends_when_an_index_is_full(files: Files) -> None:
    log = open_log(files, index_interval_bytes=1, segment_index_bytes=60)
    for number in range(8):
        appended(log, batch_of(1, timestamp_ms=NOW_MS + number))
    # the time index has room for 60 / 12 - 1 entries, and the first batch has none
    assert base_offsets(files) == [0, 5]


def test_a_segment_ends_when_offsets_leave_32_bits(files: Files) -> None:
    log = open_log(files)
    appended(log, batch_of(1))
    # as a compacted log may have it: one batch that spans many offsets
    wide = batch_of(1)
    wide[23:27] = (2**31 - 2).to_bytes(4)
    seal(wide)
    assert isinstance(log.append(wide, now_ms=NOW_MS, from_client=False), Appended)
    assert base_offsets(files) == [0]
    appended(log, batch_of(1))
    assert base_offsets(files) == [0, 2**31]


@pytest.fixture
def long_log(files: Files) -> PartitionLog:
    """Many segments of batches of one to five records with random sizes; a twin of itself after a restart."""
    random = Random(7)
    log = open_log(files, segment_bytes=20_000, index_interval_bytes=500)
    for number in range(300):
        timestamp_ms = NOW_MS + 10 * number - random.randrange(200)
        appended(log, batch_of(random.randint(1, 5), timestamp_ms=timestamp_ms, value=bytes(random.randrange(300))))
    return log


def reopened(log: PartitionLog, files: Files, *, clean: bool) -> PartitionLog:
    log.close(clean=clean)
    return open_log(files, segment_bytes=20_000, index_interval_bytes=500)


@pytest.mark.parametrize("restart", [None, True, False])
def test_every_offset_can_be_read(files: Files, long_log: PartitionLog, restart: bool | None) -> None:
    log = long_log if restart is None else reopened(long_log, files, clean=restart)
    assert len(base_offsets(files)) > 3
    random = Random(1)
    for offset in random.sample(range(log.log_end_offset), log.log_end_offset):
        data = log.read(offset, random.choice([1, 300, 2000, 1 << 20]))
        assert data
        headers = [header for _, header in split_batches(data)]
        assert headers[0].base_offset <= offset <= headers[0].last_offset
        assert sum(header.size_bytes for header in headers) == len(data)
    assert log.read(log.log_end_offset, 1) == b""
    assert log.read(log.log_end_offset + 1, 1) is log.read(-1, 1) is None


def test_reading_on_from_batch_to_batch_gives_the_whole_log(files: Files, long_log: PartitionLog) -> None:
    whole = b"".join(files.read_all(f"t-0/{base:020d}.log") for base in base_offsets(files))
    offset, parts = 0, []
    while offset < long_log.log_end_offset:
        part = long_log.read(offset, 3000)
        assert part
        parts.append(part)
        offset = [header for _, header in split_batches(part)][-1].next_offset
    assert b"".join(parts) == whole
    assert [record.offset for record in long_log.read_records(0)] == list(range(long_log.log_end_offset))
    assert [record.offset for record in long_log.read_records(500)] == list(range(500, long_log.log_end_offset))


@pytest.mark.parametrize("restart", [None, True, False])
def test_times_lead_to_the_first_record_as_late(files: Files, long_log: PartitionLog, restart: bool | None) -> None:
    log = long_log if restart is None else reopened(long_log, files, clean=restart)
    records = list(log.read_records(0))
    for timestamp_ms in range(NOW_MS - 300, NOW_MS + 3200, 7):
        expected = next(((record.timestamp_ms, record.offset) for record in records if record.timestamp_ms >= timestamp_ms), None)
        assert log.timestamps().first_at(timestamp_ms) == expected
    latest_ms = max(record.timestamp_ms for record in records)
    assert log.timestamps().latest() == log.timestamps().first_at(latest_ms)
    assert log.timestamps().first_at(latest_ms + 1) is None


def test_records_without_timestamps(files: Files) -> None:
    log = open_log(files)
    appended(log, encode_batch([Record(0, -1, None, b"")]))
    assert log.timestamps().latest() is None
    assert log.timestamps().first_at(0) is None


def test_a_batch_of_junk_is_reported_and_not_thrown(files: Files) -> None:
    log = open_log(files)
    junk = bytearray(batch_of())
    junk[70:] = b"\xff" * (len(junk) - 70)
    seal(junk)
    appended(log, junk)
    with pytest.raises(StorageError, match=r"the batch at offset 0 of t-0/0+\.log cannot be read"):
        list(log.read_records(0))
    with pytest.raises(StorageError, match="cannot be read"):
        log.timestamps().first_at(NOW_MS)


def test_each_epoch_is_noted_with_its_first_offset(files: Files) -> None:
    log = open_log(files)
    appended(log, batch_of())
    log.leader_epoch = 5
    appended(log, batch_of())
    log.leader_epoch = 2  # epochs only rise
    appended(log, batch_of())
    assert log.leader_epochs == ((0, 0), (5, 3))
    log.close()
    log = PartitionLog(files, "t-0", LogSettings(), leader_epoch=3)
    log.open(NOW_MS)
    assert (log.leader_epochs, log.leader_epoch) == (((0, 0), (5, 3)), 5)


def test_moved_away_it_leaves_nothing_and_begins_again(files: Files, long_log: PartitionLog) -> None:
    long_log.move_away("t-0.gone-delete")
    files.remove_directory("t-0.gone-delete")
    assert files.list("") == []
    assert (long_log.log_end_offset, long_log.size_bytes) == (0, 0)
    assert appended(long_log, batch_of()).base_offset == 0
    assert base_offsets(files) == [0]


def test_a_clean_close_leaves_a_snapshot_that_says_so(files: Files) -> None:
    log = open_log(files)
    appended(log, batch_of())
    log.close()
    assert "00000000000000000003.snapshot" in files.list("t-0")
    assert open_log(files).log_end_offset == 3
    # a second close of an unchanged log writes nothing
    before = {name: files.read_all(f"t-0/{name}") for name in files.list("t-0")}
    log = open_log(files)
    log.close()
    assert before == {name: files.read_all(f"t-0/{name}") for name in files.list("t-0")}


def test_full_segments_are_vouched_for_once_they_are_synced(files: Files) -> None:
    log = open_log(files, segment_bytes=len(batch_of()))
    for _ in range(3):
        appended(log, batch_of())
    assert log.rolled_segments == 2
    assert not [name for name in files.list("t-0") if name.endswith(".snapshot")]
    log.sync_rolled()
    assert log.rolled_segments == 0
    assert [name for name in files.list("t-0") if name.endswith(".snapshot")] == [f"{base:020d}.snapshot" for base in (3, 6)]


def test_full_segments_are_synced_once_although_two_threads_do_it(tmp_path: Path) -> None:
    synced: list[str] = []

    class Counting(OsFiles):
        def sync(self, path: str) -> None:
            synced.append(path)
            super().sync(path)

    log = open_log(Counting(tmp_path), segment_bytes=len(batch_of()))
    for _ in range(20):
        appended(log, batch_of())
    with ThreadPoolExecutor(1) as other:
        done = other.submit(log.sync_rolled)
        log.flush()
        done.result()
    assert len([path for path in synced if path.endswith(".log")]) == 20
    assert len([name for name in log_names(tmp_path) if name.endswith(".snapshot")]) == 19


def log_names(root: Path) -> list[str]:
    return [path.name for path in (root / "t-0").iterdir()]


def test_a_full_segment_that_cannot_be_synced_closes_the_log_to_appends() -> None:
    faulty = FaultyFiles(MemoryFiles(), Random(0))
    log = open_log(faulty, segment_bytes=len(batch_of()))
    for _ in range(2):
        appended(log, batch_of())
    faulty.fail_next_sync()
    with pytest.raises(StorageError, match="injected"):
        log.sync_rolled()
    with pytest.raises(StorageError, match="could not be synced"):
        log.append(batch_of(), now_ms=NOW_MS)


@pytest.mark.parametrize("after_bytes", [0, 1, 61, 80])
def test_a_failed_write_leaves_nothing_and_the_log_goes_on(after_bytes: int) -> None:
    memory = MemoryFiles()
    faulty = FaultyFiles(memory, Random(0))
    log = open_log(faulty)
    appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=0))
    whole = memory.read_all(LOG)
    faulty.fail_next_write(after_bytes=after_bytes)
    with pytest.raises(StorageError, match="injected"):
        log.append(batch_of(producer_id=9, producer_epoch=0, base_sequence=3), now_ms=NOW_MS)
    assert (memory.read_all(LOG), log.log_end_offset) == (whole, 3)
    # the producer tries again, and is no duplicate
    assert appended(log, batch_of(producer_id=9, producer_epoch=0, base_sequence=3)).base_offset == 3


def test_a_write_that_cannot_be_undone_closes_the_log_to_appends() -> None:
    faulty = FaultyFiles(MemoryFiles(), Random(0))
    log = open_log(faulty)
    appended(log, batch_of())
    faulty.fail_next_write(after_bytes=10)
    faulty.truncate_fails = True
    with pytest.raises(StorageError):
        log.append(batch_of(), now_ms=NOW_MS)
    faulty.truncate_fails = False
    with pytest.raises(StorageError, match="takes no more records"):
        log.append(batch_of(), now_ms=NOW_MS)
    assert len(list(log.read_records(0))) == 3
    with pytest.raises(StorageError, match="takes no more records"):
        log.close()
    again = PartitionLog(faulty, "t-0", LogSettings())
    assert again.open(NOW_MS)[:3] == (False, 3, 10)
    assert appended(again, batch_of()).base_offset == 3


def test_after_a_failed_sync_nothing_more_is_taken() -> None:
    faulty = FaultyFiles(MemoryFiles(), Random(0))
    log = open_log(faulty)
    appended(log, batch_of())
    faulty.fail_next_sync()
    with pytest.raises(StorageError):
        log.flush()
    with pytest.raises(StorageError, match="could not be synced"):
        log.append(batch_of(), now_ms=NOW_MS)
    for attempt in (log.flush, log.close):  # a second sync would say yes without having done anything
        with pytest.raises(StorageError, match="could not be synced"):
            attempt()
    assert not [name for name in faulty.list("t-0") if name.endswith(".snapshot")]


@pytest.mark.parametrize("failing", range(4))
def test_a_first_append_that_fails_halfway_can_be_tried_again(failing: int) -> None:
    """The epoch checkpoint, the log file; then a roll: the old segment's indexes."""
    faulty = FaultyFiles(MemoryFiles(), Random(0))
    log = open_log(faulty, segment_bytes=2 * len(batch_of()), index_interval_bytes=1)
    attempts: list[Callable[[], object]] = [lambda: appended(log, batch_of())] * 3
    for number, attempt in enumerate(attempts):
        if number == failing:
            faulty.fail_next_write(after_bytes=3)
            with pytest.raises(StorageError):
                attempt()
        attempt()
    assert [record.offset for record in log.read_records(0)] == list(range(9))
    log.close(clean=False)
    assert [record.offset for record in open_log(faulty).read_records(0)] == list(range(9))


def test_records_that_are_framed_already_are_appended_as_a_batch() -> None:
    log = PartitionLog(MemoryFiles(), "t-0", LogSettings())
    records = [Record(number, 5, b"k", b"v") for number in range(3)]
    log.append_records(records, now_ms=5)
    log.append_framed(bytes(encode_records(records, base_offset=0, base_timestamp_ms=5)), 3, now_ms=5, codec=NONE)
    stored = bytes(log.read(3, 10_000))
    assert [record.offset for record in decode_batch(stored)] == [3, 4, 5]
    assert log.log_end_offset == 6


def test_records_that_are_framed_already_and_more_than_a_batch_may_hold_are_not_written() -> None:
    log = PartitionLog(MemoryFiles(), "t-0", LogSettings())
    section = bytes(encode_records([Record(0, 5, b"k", b"v" * 500)], base_offset=0, base_timestamp_ms=5))
    size = 61 + len(section)
    with pytest.raises(BatchTooLarge) as raised:
        log.append_framed(section, 1, now_ms=5, codec=NONE, bytes_max=size - 1)
    assert (raised.value.code, log.log_end_offset) == (ErrorCode.MESSAGE_TOO_LARGE, 0)
    log.append_framed(section, 1, now_ms=5, codec=GZIP, bytes_max=200)
    log.append_framed(section, 1, now_ms=5, codec=NONE, bytes_max=size)
    assert log.log_end_offset == 2


def test_defaults() -> None:
    settings = LogSettings()
    assert (settings.segment_bytes, settings.segment_ms, settings.segment_index_bytes) == (1 << 30, 7 * 86_400_000, 10 << 20)
    assert (settings.index_interval_bytes, settings.max_message_bytes) == (4096, 1_048_588)
    assert (settings.is_compacted, settings.is_log_append_time) == (False, False)


def test_policies_and_timestamp_types() -> None:
    assert LogSettings(cleanup_policy="compact,delete").is_compacted
    assert LogSettings(message_timestamp_type="LogAppendTime").is_log_append_time


EPOCHS = LeaderEpochs([EpochStart(2, 10), EpochStart(4, 25), EpochStart(5, 30)])


@pytest.mark.parametrize(
    ("epoch", "end"), [(-1, (-1, -1)), (0, (0, 10)), (2, (2, 25)), (3, (2, 25)), (4, (4, 30)), (5, (5, 40)), (6, (-1, -1))]
)
def test_an_epoch_ends_where_the_next_began(epoch: int, end: tuple[int, int]) -> None:
    assert EPOCHS.end_offset_for(epoch, 40) == EpochEnd(*end)


def test_the_current_epoch_counts_before_its_first_batch() -> None:
    assert LeaderEpochs().end_offset_for(0, 0) == EpochEnd(0, 0)
    later = LeaderEpochs(EPOCHS.starts, current=7)
    assert later.end_offset_for(5, 40) == EpochEnd(5, 40)
    assert later.end_offset_for(6, 40) == EpochEnd(5, 40)
    assert later.end_offset_for(7, 40) == EpochEnd(7, 40)


def test_the_current_epoch_is_at_least_that_of_the_last_batch() -> None:
    assert LeaderEpochs([EpochStart(3, 0)], current=1).current == 3


@pytest.mark.parametrize(
    ("log_start_offset", "left"),
    [
        (0, [(2, 10), (4, 25), (5, 30)]),
        (10, [(2, 10), (4, 25), (5, 30)]),
        (24, [(2, 24), (4, 25), (5, 30)]),
        (25, [(4, 25), (5, 30)]),
        (99, [(5, 99)]),
    ],
)
def test_the_epoch_that_holds_the_start_stays(log_start_offset: int, left: list[tuple[int, int]]) -> None:
    assert EPOCHS.after_start(log_start_offset) == [EpochStart(*start) for start in left]


ID = UUID(int=7)


def test_the_topics_id_is_written_once() -> None:
    files = MemoryFiles()
    make_directory(files, "t-0", ID)
    written = files.read_all("t-0/partition.metadata")
    assert written.startswith(b"version: 0\ntopic_id: ")
    make_directory(files, "t-0", UUID(int=8))
    assert files.read_all("t-0/partition.metadata") == written


def test_without_an_id_only_the_directory_is_made() -> None:
    files = MemoryFiles()
    make_directory(files, "t-0", None)
    assert files.list("") == ["t-0"]
    assert files.list("t-0") == []


def test_a_full_segment_does_not_bring_a_deleted_directory_back(tmp_path: Path) -> None:
    log = PartitionLog(OsFiles(tmp_path), "t-0", LogSettings(segment_bytes=100))
    log.open(0)
    log.append_records([Record(0, 5, None, b"x")], now_ms=5)
    shutil.rmtree(tmp_path / "t-0")
    with pytest.raises(StorageError):
        log.append_records([Record(0, 5, None, bytes(100))], now_ms=5)
    assert log.failure is not None
    assert not (tmp_path / "t-0").exists()
