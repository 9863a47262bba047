"""A segment: index entries as Kafka makes them, finding batches, ranges at batch bounds, and indexes that were lost."""

import struct
from pathlib import Path

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, read_header
from ottla.storage.file_system import Files
from ottla.storage.files import OsFiles
from ottla.storage.log.file_names import file_name
from ottla.storage.log.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.storage.memory_files import MemoryFiles
from ottla.testing.kit.faulty_files import overwrite

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


def test_a_log_that_was_shortened_by_another_process_is_damaged(files: Files) -> None:
    segment = segment_of(files)
    fill(segment, [100] * 5)
    files.open(f"t-0/{BASE:020d}.log").truncate(10)
    with pytest.raises(StorageError, match="damaged at byte 0"):
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
