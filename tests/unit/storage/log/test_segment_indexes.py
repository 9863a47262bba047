"""A segment's index files: only what they lack is written, and what is in them is only used when it is whole."""

import pytest

from ottla.storage.log.segment_indexes import SegmentIndexes
from ottla.storage.memory_files import MemoryFiles


@pytest.fixture
def files() -> MemoryFiles:
    files = MemoryFiles()
    files.make_directory("t-0")
    return files


def indexes(files: MemoryFiles, suffix: str = "") -> SegmentIndexes:
    return SegmentIndexes(files, "t-0/0", suffix)


def test_only_new_entries_are_written(files: MemoryFiles) -> None:
    written = indexes(files, ".cleaned")
    offsets, times = written.clear()
    assert written.file_bytes() is None
    offsets.append(1, 100)
    times.append_if_later(5, 1)
    written.write(offsets, times)
    files.open("t-0/0.index.cleaned").append(b"half of what was written before a failure")
    offsets.append(2, 200)
    written.write(offsets, times)
    assert written.file_bytes() == (16, 12)
    found = indexes(files, ".cleaned").read(300)
    assert found is not None
    assert (list(found[0].positions), list(found[1].timestamps_ms)) == ([100, 200], [5])


def test_a_missing_or_damaged_file_is_none(files: MemoryFiles) -> None:
    made = indexes(files)
    made.write(*made.clear())
    assert indexes(files).read(0) is not None
    files.open("t-0/0.timeindex").append(b"x")
    assert indexes(files).read(0) is None
    files.remove("t-0/0.timeindex")
    assert (indexes(files).read(0), indexes(files).file_bytes()) == (None, None)


def test_files_are_replaced_whatever_they_hold(files: MemoryFiles) -> None:
    files.open("t-0/0.index").append(b"something else")
    read = indexes(files)
    offsets, times = read.clear()
    offsets.append(1, 100)
    read.use(offsets, times)
    read.replace_files_later()
    read.write(offsets, times)
    assert read.file_bytes() == (8, 0)
    read.replace(*indexes(files).clear(), sync=True)
    assert read.file_bytes() == (0, 0)
    read.drop()
    assert (read.offsets, read.times) == (None, None)


def test_empty_files_are_not_synced(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    monkeypatch.setattr(files, "sync", synced.append)
    written = indexes(files)
    offsets, times = written.clear()
    written.write(offsets, times)
    written.sync()
    assert synced == []
    offsets.append(1, 100)
    written.write(offsets, times)
    written.sync()
    assert synced == ["t-0/0.index"]
