"""Candidates: where a log is dirty, how far it may be cleaned, and when it is due."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from ottla.core.cleaning.candidates import Candidate, assess, filthiest

LONG = (1 << 63) - 1
NOW_MS = 1_000_000


class Part(NamedTuple):
    base_offset: int
    next_base_offset: int
    size_bytes: int
    largest_timestamp_ms: int = 0
    first_timestamp_ms: int | None = None


@dataclass
class Settings:
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG


@dataclass
class Log:
    segments: list[Part]
    settings: Settings = field(default_factory=Settings)
    log_start_offset: int = 0
    log_end_offset: int = 1000
    last_stable_offset: int = 1000


THREE = [Part(0, 10, 100), Part(10, 20, 200), Part(20, 30, 400)]


def judged(log: Log, checkpoint: int | None = None) -> Candidate:
    return assess(log, checkpoint, NOW_MS, first_timestamp_ms=lambda part: part.first_timestamp_ms)


def test_a_log_that_was_never_cleaned_is_dirty_from_its_start() -> None:
    assert judged(Log(THREE)) == Candidate(0, 30, 0, 700, 0, is_due=True, has_new_start=False)
    assert judged(Log(THREE)).dirty_ratio == 1.0
    assert judged(Log(THREE, log_start_offset=12)) == Candidate(12, 30, 300, 600, 0, is_due=True, has_new_start=False)


def test_the_checkpoint_divides_clean_from_dirty() -> None:
    found = judged(Log(THREE), 20)
    assert (found.first_dirty_offset, found.clean_bytes, found.cleanable_bytes) == (20, 300, 400)
    assert found.dirty_ratio == pytest.approx(4 / 7)
    assert judged(Log(THREE), 30) == Candidate(30, 30, 700, 0, 0, is_due=False, has_new_start=False)


def test_a_segment_that_is_dirty_in_part_counts_on_both_sides() -> None:
    found = judged(Log(THREE), 25)
    assert (found.clean_bytes, found.cleanable_bytes, found.first_uncleanable_offset) == (700, 400, 30)


@pytest.mark.parametrize("checkpoint", [4, 1001])
def test_a_checkpoint_that_is_no_offset_of_the_log_is_set_again(checkpoint: int) -> None:
    found = judged(Log(THREE, log_start_offset=5), checkpoint)
    assert (found.first_dirty_offset, found.has_new_start) == (5, True)
    assert not judged(Log(THREE, log_start_offset=5), 1000).has_new_start


@pytest.mark.parametrize(("ratio", "is_due"), [(0.49, True), (0.5, False), (0.51, False)])
def test_it_must_be_dirtier_than_the_ratio_not_as_dirty(ratio: float, is_due: bool) -> None:
    log = Log([Part(0, 10, 100), Part(10, 20, 100)], Settings(min_cleanable_dirty_ratio=ratio))
    assert judged(log, 10).is_due == is_due


def test_an_empty_log_is_never_due() -> None:
    for log in (Log([]), Log([Part(0, 10, 0)])):
        found = judged(Log(log.segments, Settings(min_cleanable_dirty_ratio=0.0)))
        assert (found.dirty_ratio, found.is_due) == (0.0, False)


@pytest.mark.parametrize(("last_stable_offset", "end"), [(30, 30), (29, 20), (20, 20), (19, 10), (3, 0)])
def test_no_segment_is_cleaned_that_reaches_past_the_last_stable_offset(last_stable_offset: int, end: int) -> None:
    assert judged(Log(THREE, last_stable_offset=last_stable_offset)).first_uncleanable_offset == end


def test_young_segments_and_all_behind_them_wait() -> None:
    parts = [Part(0, 10, 1, NOW_MS - 100), Part(10, 20, 1, NOW_MS - 99), Part(20, 30, 1, 0)]
    assert judged(Log(parts, Settings(min_compaction_lag_ms=100))).first_uncleanable_offset == 10
    assert judged(Log(parts, Settings(min_compaction_lag_ms=0))).first_uncleanable_offset == 30
    assert judged(Log(parts, Settings(min_compaction_lag_ms=100)), 20).first_uncleanable_offset == 30


def test_old_dirty_data_is_due_whatever_the_ratio() -> None:
    parts = [Part(0, 10, 1000, 0, 5), Part(10, 20, 1, 0, NOW_MS - 150), Part(20, 30, 1, 0, None), Part(30, 40, 1, 0, 0)]
    found = judged(Log(parts, Settings(max_compaction_lag_ms=100)), 10)
    assert (found.overdue_ms, found.is_due) == (50, True)
    assert judged(Log(parts, Settings(max_compaction_lag_ms=150)), 10)[4:6] == (0, False)
    assert judged(Log(parts, Settings(max_compaction_lag_ms=100)), 20)[4:6] == (0, False)


def test_overdue_data_that_cannot_be_cleaned_is_not_due() -> None:
    found = judged(Log([Part(0, 10, 1000, 0, 5)], Settings(max_compaction_lag_ms=100), last_stable_offset=5))
    assert (found.overdue_ms, found.is_due) == (NOW_MS - 105, False)


def test_first_timestamps_are_not_asked_for_without_need() -> None:
    def refuse(part: Part) -> int:
        raise AssertionError(part)

    assess(Log(THREE), None, NOW_MS, first_timestamp_ms=refuse)


def test_the_filthiest_of_those_that_are_due_is_next() -> None:
    due = {name: Candidate(0, 1, clean, 10, 0, is_due=True, has_new_start=False) for name, clean in (("a", 5), ("b", 3), ("c", 4))}
    filthier = Candidate(0, 1, 0, 10, 0, is_due=False, has_new_start=False)
    assert filthiest([*due.items(), ("d", filthier)]) == ("b", due["b"])
    assert filthiest([("d", filthier)]) is None
