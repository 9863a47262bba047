"""Cleaned segments replace those they were made from; when one of those is gone, nothing changes."""

import pytest

from ottla.core.errors import StorageError
from ottla.storage.log.aborted_transactions import AbortedTransactions
from ottla.storage.log.durability import Durability
from ottla.storage.log.segment import Segment
from ottla.storage.log.segment_replacement import SegmentReplacement
from ottla.storage.log.segment_swap import HalfSwapped, make_ready
from ottla.storage.log.segments import Segments
from ottla.storage.memory_files import MemoryFiles


class Case:
    """Three segments with the base offsets 0, 10 and 20, and a cleaned one for the first two."""

    def __init__(self) -> None:
        self.files = MemoryFiles()
        self.files.make_directory("t-0")
        self.segments = Segments([self.segment(base) for base in (0, 10, 20)])
        self.durability = Durability(self.files, "t-0", offset=30, undurable=())
        self.segment(0, ".cleaned").close()
        make_ready(self.files, "t-0/00000000000000000000")

    def segment(self, base_offset: int, suffix: str = "") -> Segment:
        made = Segment(self.files, "t-0", base_offset, index_interval_bytes=1, made_ms=base_offset, file_suffix=suffix)
        made.create()
        return made

    def replace(self, *bases: int) -> tuple[str, ...] | None:
        replacement = SegmentReplacement(
            self.files, "t-0", segments=self.segments, durability=self.durability, aborted=AbortedTransactions()
        )
        return replacement.replace(bases[0], bases, log_end_offset=30, index_interval_bytes=1)

    def swaps(self) -> list[str]:
        return [name for name in self.files.list("t-0") if name.endswith(".swap")]


def test_segments_are_replaced() -> None:
    case = Case()
    deleted = case.replace(0, 10)
    assert deleted is not None
    assert sorted(name for name in deleted if ".log" in name) == [f"t-0/{base:020d}.log.deleted" for base in (0, 10)]
    assert [(each.base_offset, each.made_ms) for each in case.segments.all()] == [(0, 10), (20, 20)]
    assert case.swaps() == []


@pytest.mark.parametrize("bases", [(0, 20), (0, 10, 20), (5, 10)])
def test_segments_that_are_not_neighbours_or_active_are_not_replaced(bases: tuple[int, ...]) -> None:
    case = Case()
    assert case.replace(*bases) is None
    assert len(case.segments) == 3
    assert len(case.swaps()) == (0 if bases[0] == 0 else 3), "files of another base offset are left alone"


def test_without_finished_files_nothing_happens() -> None:
    case = Case()
    assert case.replace(0, 10)
    assert case.replace(0) is None


def test_after_half_a_swap_the_log_takes_no_more_records(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case()

    def fail(old: str, new: str) -> None:
        raise StorageError("the disk fails")

    monkeypatch.setattr(case.files, "rename", fail)
    with pytest.raises(HalfSwapped):
        case.replace(0, 10)
    assert "interrupted" in (case.durability.broken or "")
