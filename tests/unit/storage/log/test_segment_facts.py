"""A segment's size and times, from its files alone."""

import struct

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage.log.segment_facts import SegmentFacts, segment_facts
from ottla.storage.memory_files import MemoryFiles

BASE = 40


def segment(times_ms: list[int], entries: list[tuple[int, int]], *, tail: bytes = b"", preallocated: int = 0) -> tuple[MemoryFiles, int]:
    """The files of a segment with one batch for each time, its time index as given; and the log's size."""
    files = MemoryFiles()
    files.make_directory("t-0")
    log = b"".join(
        bytes(encode_batch([Record(BASE + at, time_ms, b"k", b"v")], base_offset=BASE + at)) for at, time_ms in enumerate(times_ms)
    )
    files.replace(f"t-0/{BASE:020d}.log", log + tail)
    files.replace(f"t-0/{BASE:020d}.timeindex", b"".join(struct.pack(">qi", *entry) for entry in entries) + bytes(12 * preallocated))
    return files, len(log) + len(tail)


@pytest.mark.parametrize("preallocated", [0, 1, 100])
@pytest.mark.parametrize("count", [1, 2, 7])
def test_the_last_entry_of_the_time_index_has_the_last_time(count: int, preallocated: int) -> None:
    files, size = segment([5, 9], [(100 + at, at) for at in range(count)], preallocated=preallocated)
    assert segment_facts(files, "t-0", BASE, is_active=False) == SegmentFacts(BASE, size, 5, 99 + count)


def test_without_an_index_the_batches_tell() -> None:
    files, size = segment([5, 900, 7], [])
    assert segment_facts(files, "t-0", BASE, is_active=True) == SegmentFacts(BASE, size, 5, 900)
    files.remove(f"t-0/{BASE:020d}.timeindex")
    assert segment_facts(files, "t-0", BASE, is_active=False) == SegmentFacts(BASE, size, 5, 900)


def test_the_active_segment_may_be_ahead_of_its_index() -> None:
    files, size = segment([5, 20, 30], [(20, 1)], preallocated=3)
    assert segment_facts(files, "t-0", BASE, is_active=True) == SegmentFacts(BASE, size, 5, 30)
    assert segment_facts(files, "t-0", BASE, is_active=False) == SegmentFacts(BASE, size, 5, 20)


@pytest.mark.parametrize("tail", [b"torn", bytes(100), b"\xff" * 100])
def test_a_torn_tail_ends_the_walk(tail: bytes) -> None:
    files, size = segment([5, 20], [], tail=tail)
    assert segment_facts(files, "t-0", BASE, is_active=True) == SegmentFacts(BASE, size, 5, 20)


def test_an_empty_segment_has_no_times() -> None:
    files, _ = segment([], [], preallocated=5)
    assert segment_facts(files, "t-0", BASE, is_active=True) == SegmentFacts(BASE, 0, -1, -1)


def test_the_walk_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.log.segment_facts.BATCHES_MAX", 3)
    files, size = segment([1, 2, 3, 4, 5], [])
    assert segment_facts(files, "t-0", BASE, is_active=True) == SegmentFacts(BASE, size, 1, 3)


def test_batches_larger_than_what_is_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ottla.storage.log.segment_facts._WINDOW_BYTES", 100)
    files, size = segment(list(range(20)), [])
    assert segment_facts(files, "t-0", BASE, is_active=True) == SegmentFacts(BASE, size, 0, 19)


def test_a_segment_that_is_gone_is_an_error() -> None:
    files, _ = segment([1], [])
    with pytest.raises(StorageError):
        segment_facts(files, "t-0", BASE + 1, is_active=False)
