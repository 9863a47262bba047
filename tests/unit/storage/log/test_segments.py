"""The segments in order: what is held in memory, gaps, and an empty list. Reading through them is tested with the log."""

from pathlib import Path

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch, split_batches
from ottla.storage.files import OsFiles
from ottla.storage.log.segment import Segment
from ottla.storage.log.segments import Segments

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
