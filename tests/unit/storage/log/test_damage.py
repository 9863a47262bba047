"""Losses are described with file, byte and offsets; a sound batch behind damage shows that it is not a write that was cut short."""

import pytest

from ottla.core.errors import StorageError
from ottla.core.model import Record
from ottla.core.records.batch import encode_batch
from ottla.storage.checkpoints import EpochStart
from ottla.storage.log.damage import (
    Loss,
    all_below_start,
    gaps,
    opening_refused,
    shorter_than_durable,
    start_unknown_to,
    whole_batch_behind,
)
from ottla.storage.log.segment import Segment
from ottla.storage.memory_files import MemoryFiles


def batch(offset: int, value: bytes = b"v") -> bytes:
    return bytes(encode_batch([Record(offset, 5, b"k", value)], base_offset=offset))


def behind(data: bytes, position: int, offset: int) -> int | None:
    header = whole_batch_behind(lambda at, length: data[at : at + length], position, len(data), offset)
    return None if header is None else header.base_offset


SIZE = len(batch(0))


@pytest.mark.parametrize("at", [0, 8, 16, 17, 30, SIZE - 1])
def test_a_whole_batch_is_found_behind_any_damage_of_the_one_before(at: int) -> None:
    data = bytearray(batch(3) + batch(4) + batch(5))
    data[at] ^= 0x55
    assert behind(bytes(data), 0, 3) == 4


@pytest.mark.parametrize("cut", [1, 20, SIZE - 1])
def test_nothing_is_found_behind_a_write_that_was_cut_short(cut: int) -> None:
    data = batch(3) + batch(4)[:-cut]
    assert behind(data, SIZE, 4) is None
    assert behind(data + bytes(cut), SIZE, 4) is None


def test_batches_with_offsets_from_before_are_not_what_followed() -> None:
    assert behind(bytes(10) + batch(2) + batch(3), 0, 3) is None


def test_a_start_that_the_log_knows_is_no_loss() -> None:
    assert start_unknown_to([EpochStart(0, 0)], "t-0", 0, 0) is None
    assert start_unknown_to([EpochStart(0, 7)], "t-0", 0, 7) is None
    loss = start_unknown_to([EpochStart(0, 0)], "t-0", 0, 7)
    assert loss is not None
    assert "log-start-offset-checkpoint lets the log start at offset 7" in loss.sentence
    assert "offsets 0 to 6 are no longer read" in loss.sentence


def test_what_the_checkpoints_contradict_is_logged_in_offsets() -> None:
    assert "offsets 4 to 8 are lost" in shorter_than_durable("t-0", 4, 9).sentence
    assert "offsets 2 to 4 were removed, and the log continues at offset 50" in all_below_start("t-0", 2, 5, 50).sentence
    assert "nothing was changed" in str(opening_refused("t-0", Loss(True, "it is gone"))).lower()
    assert isinstance(opening_refused("t-0", Loss(True, "it is gone")), StorageError)


def segments(files: MemoryFiles, *bases: int, records: int = 3) -> list[Segment]:
    """Segments of `records` batches each, with their indexes."""
    files.make_directory("t-0")
    made = []
    for base in bases:
        segment = Segment(files, "t-0", base, index_interval_bytes=SIZE, made_ms=5)
        segment.create()
        for offset in range(base, base + records):
            segment.append(batch(offset))
            segment.note(offset, 5, SIZE)
        segment.write_indexes(final=True)
        segment.close()
        made.append(segment)
    return made


def test_segments_that_follow_each_other_have_no_gap() -> None:
    files = MemoryFiles()
    assert list(gaps(files, segments(files, 0, 3, 6))) == []


def test_a_missing_segment_is_logged_with_its_offsets() -> None:
    files = MemoryFiles()
    (loss,) = gaps(files, segments(files, 0, 6))
    assert loss.was_durable
    assert loss.sentence.startswith("offsets 3 to 5 are missing between t-0/00000000000000000000.log and t-0/00000000000000000006.log")


def test_an_emptied_segment_is_a_gap_too() -> None:
    files = MemoryFiles()
    segments(files, 0, 3, 6)
    files.open("t-0/00000000000000000003.log").truncate(0)
    files.open("t-0/00000000000000000003.index").truncate(0)
    found = [Segment(files, "t-0", base, index_interval_bytes=SIZE, made_ms=5) for base in (0, 3, 6)]
    (loss,) = gaps(files, found)
    assert loss.sentence.startswith("offsets 3 to 5 are missing")


@pytest.mark.parametrize("damage", ["missing", "zeros"])
def test_an_index_that_leads_nowhere_says_nothing(damage: str) -> None:
    files = MemoryFiles()
    made = segments(files, 0, 6)
    files.remove("t-0/00000000000000000000.index")
    if damage == "zeros":
        files.open("t-0/00000000000000000000.index").append(b"\xff" * 8)
    assert list(gaps(files, made)) == []
