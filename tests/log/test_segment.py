"""A segment: index entries as Kafka makes them, finding batches, ranges at batch bounds, and indexes that were lost."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest

from ottla.log.checkpoints import file_name
from ottla.log.file_system import File, Files, MemoryFiles
from ottla.log.files import OsFiles
from ottla.log.index import OffsetIndex
from ottla.log.partition_log import PartitionLog
from ottla.log.segment import RELATIVE_OFFSET_MAX, Segment, ends_at_a_batch, walk_batches
from ottla.log.segment_facts import SegmentFacts, segment_facts
from ottla.log.settings import LogSettings
from ottla.protocol.errors import StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import HEADER_BYTES, encode_batch, join_batch, read_header
from ottla.protocol.records.record_checks import find_timestamp
from tests.support.kit.cleaning import append_from_client, clean_now
from tests.support.kit.faulty_files import overwrite

BASE = 1000


@pytest.fixture(params=["disk", "memory"])
def files(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    made: Files = OsFiles(tmp_path / "data") if request.param == "disk" else MemoryFiles()
    made.make_directory("t-0")
    return made


def segment_of(files: Files, interval: int = 1000) -> Segment:
    return Segment(files, "t-0", BASE, index_interval_bytes=interval, made_ms=0)


def fill(segment: Segment, sizes: list[int], *, timestamps: list[int] | None = None) -> list[tuple[int, int, bytes]]:
    """Batches of two records and the given value sizes; (first offset, position, bytes) of each."""
    segment.create()
    batches, offset = [], BASE
    for number, size in enumerate(sizes):
        timestamp_ms = timestamps[number] if timestamps else 5000 + number
        records = [Record(offset, timestamp_ms, None, bytes(size)), Record(offset + 1, timestamp_ms, None, None)]
        batch = encode_batch(records, base_offset=offset)
        batches.append((offset, segment.size, bytes(batch)))
        segment.append(batch)
        segment.note(offset + 1, timestamp_ms, len(batch))
        offset += 2
    return batches


def test_names_have_twenty_digits() -> None:
    assert file_name(368769, ".log") == "00000000000000368769.log"


def test_an_entry_every_interval_at_a_batchs_start(files: Files) -> None:
    segment = segment_of(files, interval=500)
    batches = fill(segment, [100] * 20)
    step = len(batches[0][2])
    every = 500 // step + 1
    segment.write_indexes(final=False)
    expected = [(offset + 1 - BASE, position) for offset, position, _ in batches[every::every]]
    assert files.read_all(f"t-0/{BASE:020d}.index") == b"".join(struct.pack(">ii", *entry) for entry in expected)
    times = [(5000 + number * every, (number * every) * 2 + 1) for number in range(1, len(expected) + 1)]
    assert files.read_all(f"t-0/{BASE:020d}.timeindex") == b"".join(struct.pack(">qi", *entry) for entry in times)


def test_index_files_are_extended_not_rewritten(files: Files) -> None:
    segment = segment_of(files, interval=1)
    batches = fill(segment, [10] * 5)
    segment.write_indexes(final=False)
    segment.note(BASE + 11, 9000, len(batches[0][2]))
    # what a failed write may leave behind is overwritten
    files.open(f"t-0/{BASE:020d}.index").append(b"xyz")
    segment.write_indexes(final=False)
    segment.write_indexes(final=False)
    data = files.read_all(f"t-0/{BASE:020d}.index")
    assert len(data) == 5 * 8
    assert struct.unpack(">ii", data[-8:]) == (11, 5 * len(batches[0][2]))


def test_the_final_time_entry_holds_the_largest_timestamp(files: Files) -> None:
    segment = segment_of(files)
    fill(segment, [10, 10, 10], timestamps=[5, 9, 7])
    segment.write_indexes(final=True)
    assert files.read_all(f"t-0/{BASE:020d}.timeindex") == struct.pack(">qi", 9, 3)
    assert segment_of(files).largest_timestamp() == (9, BASE + 3)


@pytest.mark.parametrize("interval", [1, 300, 5000, 1 << 20])
def test_every_offset_is_found_in_its_batch(files: Files, interval: int) -> None:
    segment = segment_of(files, interval)
    batches = fill(segment, [10, 900, 5000, 10, 10, 4000, 1, 1, 1, 20_000, 3])
    for offset, position, batch in batches:
        assert segment.locate(offset) == segment.locate(offset + 1) == (position, len(batch))
    assert segment.locate(BASE + 2 * len(batches)) is None
    assert segment.locate(BASE - 1) == (0, len(batches[0][2]))


@pytest.mark.parametrize("interval", [1, 300, 5000, 1 << 20])
@pytest.mark.parametrize("max_bytes", [1, 100, 5000, 9000, 30_000, 1 << 20])
def test_ranges_are_whole_batches_within_the_limit(files: Files, interval: int, max_bytes: int) -> None:
    segment = segment_of(files, interval)
    batches = fill(segment, [10, 900, 5000, 10, 10, 4000, 1, 1, 1, 20_000, 3])
    starts = {position for _, position, _ in batches} | {segment.size}
    everything = b"".join(batch for _, _, batch in batches)
    for offset, position, batch in batches:
        data = segment.read(offset + 1, max_bytes, at_least_one=True)
        assert data is not None
        assert everything[position:].startswith(data)
        assert position + len(data) in starts
        assert len(data) <= max_bytes or data == batch
        assert len(data) >= len(batch)
        if len(batch) > max_bytes:
            assert segment.read(offset, max_bytes, at_least_one=False) == b""
        else:
            assert segment.read(offset, max_bytes, at_least_one=False) == data


def test_small_batches_between_two_entries_are_stepped_over(files: Files) -> None:
    segment = segment_of(files, interval=1 << 20)
    batches = fill(segment, [10] * 10)
    size = len(batches[0][2])
    data = segment.read(BASE, 3 * size + 5, at_least_one=True)
    assert data is not None
    assert len(data) == 3 * size


@pytest.mark.parametrize("damage", ["missing", "torn", "zeros", "too long", "shifted"])
@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
def test_lost_indexes_are_made_again_from_the_log(files: Files, damage: str, suffix: str) -> None:
    segment = segment_of(files, interval=300)
    batches = fill(segment, [200] * 20)
    segment.write_indexes(final=True)
    path = f"t-0/{BASE:020d}{suffix}"
    good = files.read_all(path)
    files.remove(path)
    match damage:
        case "torn":
            files.open(path).append(good[:-3])
        case "zeros":
            files.open(path).append(good + bytes(24))
        case "too long":
            files.open(path).append(good + good[-12:])
        case "shifted":
            files.open(path).append(good[:-1] + bytes([good[-1] ^ 1]) if suffix == ".index" else bytes(len(good)))
    again = segment_of(files, interval=300)
    assert again.load_indexes() is False
    assert files.read_all(path) == good
    assert again.locate(batches[15][0]) == (batches[15][1], len(batches[15][2]))
    assert again.size == segment.size
    assert segment_of(files, interval=300).load_indexes() is True


def test_recount_stops_before_what_is_not_sound(files: Files) -> None:
    segment = segment_of(files)
    batches = fill(segment, [100] * 5)
    overwrite(files, f"t-0/{BASE:020d}.log", batches[3][1] + 80, b"\xff")
    met: list[int] = []
    assert segment.recount(verify_crc=True, on_batch=lambda _, header: met.append(header.base_offset)) == BASE + 6
    assert met == [BASE, BASE + 2, BASE + 4]
    assert segment.size == batches[3][1]


@pytest.mark.parametrize(
    ("base_offset", "may_have_gaps", "found"), [(BASE + 2, False, 5), (BASE + 3, False, 1), (BASE + 3, True, 1), (BASE, True, 1)]
)
def test_offsets_must_follow_each_other(files: Files, base_offset: int, may_have_gaps: bool, found: int) -> None:
    segment = segment_of(files)
    batches = fill(segment, [100] * 5)
    overwrite(files, f"t-0/{BASE:020d}.log", batches[1][1], struct.pack(">q", base_offset))
    met: list[int] = []
    segment.recount(verify_crc=True, may_have_gaps=may_have_gaps, on_batch=lambda _, header: met.append(header.base_offset))
    assert len(met) == (2 if may_have_gaps and base_offset > BASE + 2 else found)


def test_an_offset_too_far_from_the_base_is_no_batch_of_this_segment(files: Files) -> None:
    segment = segment_of(files)
    batches = fill(segment, [100] * 2)
    overwrite(files, f"t-0/{BASE:020d}.log", batches[1][1], struct.pack(">q", BASE + RELATIVE_OFFSET_MAX))
    assert segment.recount(verify_crc=True) == BASE + 2


def test_large_batches_are_scanned_whole(files: Files) -> None:
    segment = segment_of(files)
    batches = fill(segment, [3_000_000, 10, 1_500_000])
    assert segment.recount(verify_crc=True) == BASE + 6
    assert [(position, header) for position, header in segment.batches()] == [
        (position, read_header(batch)) for _, position, batch in batches
    ]


def test_a_log_that_was_shortened_by_another_process_says_so(files: Files) -> None:
    segment = segment_of(files)
    fill(segment, [100] * 5)
    files.open(f"t-0/{BASE:020d}.log").truncate(10)
    with pytest.raises(StorageError, match="has 10 of the 885 bytes that were written to it: another program truncated it"):
        segment.read(BASE + 8, 1000, at_least_one=True)
    files.open(f"t-0/{BASE:020d}.log").truncate(1000)
    with pytest.raises(StorageError, match="damaged"):
        segment.read(BASE + 8, 1000, at_least_one=True)


def test_a_length_that_leads_out_of_the_file_is_damage_and_no_end(files: Files) -> None:
    segment = segment_of(files)
    batches = fill(segment, [100] * 5)
    position = batches[2][1]
    overwrite(files, f"t-0/{BASE:020d}.log", position + 8, struct.pack(">i", 1_000_000))
    assert segment.read(BASE, 100, at_least_one=True)
    with pytest.raises(StorageError, match=f"damaged at byte {position}"):
        segment.read(BASE + 6, 1000, at_least_one=True)


def test_create_takes_over_what_a_lost_segment_left(files: Files) -> None:
    for suffix in (".log", ".index", ".timeindex"):
        files.open(f"t-0/{BASE:020d}{suffix}").append(b"old")
    segment = segment_of(files)
    segment.create()
    assert [files.size(f"t-0/{name}") for name in files.list("t-0")] == [0, 0, 0]


def test_age_counts_from_the_first_batch(files: Files) -> None:
    segment = segment_of(files)
    fill(segment, [10, 10], timestamps=[77, 5])
    assert segment.first_timestamp_ms() == 77
    assert segment_of(files).first_timestamp_ms() == 77
    empty = Segment(files, "t-0", 5, index_interval_bytes=1, made_ms=0)
    assert empty.first_timestamp_ms() is None


def test_indexes_are_full_one_time_entry_early(files: Files) -> None:
    segment = segment_of(files, interval=1)
    fill(segment, [10] * 5)
    assert not segment.indexes_are_full(72)
    assert segment.indexes_are_full(60)
    assert segment.indexes_are_full(32)


def test_remove_leaves_nothing(files: Files) -> None:
    segment = segment_of(files)
    fill(segment, [10])
    files.remove(f"t-0/{BASE:020d}.index")
    segment.remove()
    assert files.list("t-0") == []


BATCHES = [bytes(encode_batch([Record(at, 5, None, bytes(size))], base_offset=at)) for at, size in enumerate((10, 40_000, 10))]


def log_of(data: bytes) -> File:
    files = MemoryFiles()
    file = files.open("0.log")
    file.append(data)
    return file


@pytest.mark.parametrize("verify_crc", [False, True])
def test_every_whole_batch_with_its_position(verify_crc: bool) -> None:
    data = b"".join(BATCHES)
    found = [(at, header.base_offset) for at, header in walk_batches(log_of(data), 0, len(data), verify_crc=verify_crc)]
    assert found == [(0, 0), (len(BATCHES[0]), 1), (len(BATCHES[0]) + len(BATCHES[1]), 2)]
    later = walk_batches(log_of(data), len(BATCHES[0]), len(data) - 1, verify_crc=verify_crc)
    assert [header.base_offset for _, header in later] == [1], "the last one is not whole"


def test_damage_is_seen_when_checksums_are_compared() -> None:
    data = bytearray(b"".join(BATCHES))
    data[len(BATCHES[0]) + 20_000] ^= 1
    assert [header.base_offset for _, header in walk_batches(log_of(bytes(data)), 0, len(data))] == [0, 1, 2]
    assert [header.base_offset for _, header in walk_batches(log_of(bytes(data)), 0, len(data), verify_crc=True)] == [0]
    assert list(walk_batches(log_of(b"x" * 200), 0, 200)) == []


def test_the_last_index_entry_must_be_that_of_a_batch() -> None:
    log, index = log_of(b"".join(BATCHES)), OffsetIndex()
    assert ends_at_a_batch(log, 0, index)
    index.append(1, len(BATCHES[0]))
    assert ends_at_a_batch(log, 0, index)
    assert not ends_at_a_batch(log, 100, index)
    index.append(2, len(BATCHES[0]) + 7)
    assert not ends_at_a_batch(log, 0, index)


BASE_OFFSET = 40


def segment(times_ms: list[int], entries: list[tuple[int, int]], *, tail: bytes = b"", preallocated: int = 0) -> tuple[MemoryFiles, int]:
    """The files of a segment with one batch for each time, its time index as given; and the log's size."""
    files = MemoryFiles()
    files.make_directory("t-0")
    log = b"".join(
        bytes(encode_batch([Record(BASE_OFFSET + at, time_ms, b"k", b"v")], base_offset=BASE_OFFSET + at))
        for at, time_ms in enumerate(times_ms)
    )
    files.replace(f"t-0/{BASE_OFFSET:020d}.log", log + tail)
    files.replace(f"t-0/{BASE_OFFSET:020d}.timeindex", b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(12 * preallocated))
    return files, len(log) + len(tail)


@pytest.mark.parametrize("preallocated", [0, 1, 100])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_last_entry_of_the_time_index_has_the_last_time(count: int, preallocated: int) -> None:
    files, size = segment([5, 9], [(100 + at, at) for at in range(count)], preallocated=preallocated)
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=False) == SegmentFacts(BASE_OFFSET, size, 5, 99 + count)


def test_without_an_index_the_batches_tell() -> None:
    files, size = segment([5, 900, 7], [])
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=True) == SegmentFacts(BASE_OFFSET, size, 5, 900)
    files.remove(f"t-0/{BASE_OFFSET:020d}.timeindex")
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=False) == SegmentFacts(BASE_OFFSET, size, 5, 900)


def test_the_active_segment_may_be_ahead_of_its_index() -> None:
    files, size = segment([5, 20, 30], [(20, 1)], preallocated=3)
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=True) == SegmentFacts(BASE_OFFSET, size, 5, 30)
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=False) == SegmentFacts(BASE_OFFSET, size, 5, 20)


@pytest.mark.parametrize("tail", [b"torn", bytes(100), b"\xff" * 100])
def test_a_torn_tail_ends_the_walk(tail: bytes) -> None:
    files, size = segment([5, 20], [], tail=tail)
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=True) == SegmentFacts(BASE_OFFSET, size, 5, 20)


def test_an_empty_segment_has_no_times() -> None:
    files, _ = segment([], [], preallocated=5)
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=True) == SegmentFacts(BASE_OFFSET, 0, -1, -1)


def test_the_walk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.log.segment_facts.BATCHES_MAX", 3)
    files, size = segment([1, 2, 3, 4, 5], [])
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=True) == SegmentFacts(BASE_OFFSET, size, 1, 3)


def test_batches_larger_than_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.log.segment_facts._WINDOW_BYTES", 100)
    files, size = segment(list(range(20)), [])
    assert segment_facts(files, "t-0", BASE_OFFSET, is_active=True) == SegmentFacts(BASE_OFFSET, size, 0, 19)


def test_a_segment_that_is_gone_is_an_error() -> None:
    files, _ = segment([1], [])
    with pytest.raises(StorageError):
        segment_facts(files, "t-0", BASE_OFFSET + 1, is_active=False)


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
