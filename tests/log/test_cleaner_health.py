"""Candidates: where a log is dirty, how far it may be cleaned, and when it is due."""

from dataclasses import dataclass, field
from typing import NamedTuple

import pytest

from ottla.log.cleaner.candidates import Candidate, assess, filthiest
from ottla.log.cleaner.health import (
    FINDINGS_MAX,
    OVERDUE_MS_MAX,
    CleanerFacts,
    CleanerState,
    PartitionFault,
    TopicFacts,
    duration_text,
    findings,
    size_text,
)

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


HOUR = 3_600_000
RUNNING = CleanerFacts(state=CleanerState.RUNNING, threads=1, backoff_ms=15_000, since_cleaned_ms=60_000)
OFFSETS = TopicFacts(
    name="__consumer_offsets", partitions=50, size_bytes=200_000_000, dirty_bytes=150_000_000, cleanable_bytes=140_000_000, dirty_ratio=0.7
)


def topic(**changed: object) -> TopicFacts:
    fields = {name: getattr(OFFSETS, name) for name in TopicFacts.__dataclass_fields__}
    return TopicFacts(**{**fields, **changed})  # type: ignore[arg-type]


def cleaner(**changed: object) -> CleanerFacts:
    fields = {name: getattr(RUNNING, name) for name in CleanerFacts.__dataclass_fields__}
    return CleanerFacts(**{**fields, **changed})  # type: ignore[arg-type]


def test_all_is_well() -> None:
    found = findings(RUNNING, [topic(grown_bytes=5_000_000, grown_over_ms=HOUR)])
    assert [(each.subject, each.is_ill, each.sentence, each.advice) for each in found] == [
        ("cleaner", False, "The cleaner runs; it last cleaned 60 s ago.", ""),
        (
            "topic __consumer_offsets",
            False,
            "__consumer_offsets holds 200 MB, 150 MB of it not cleaned yet, has grown by 5 MB in the last hour.",
            "",
        ),
    ]


def test_the_classic_disk_full_of_offsets() -> None:
    late = topic(overdue_ms=2 * HOUR, since_cleaned_ms=3 * HOUR, grown_bytes=120_000_000, grown_over_ms=HOUR)
    found = findings(cleaner(state=CleanerState.DEAD, dead_threads=1), [late])
    assert [(each.is_ill, each.sentence, each.advice) for each in found] == [
        (True, "1 of the cleaner's 1 threads died.", "See the broker's log for the cause, and restart the broker."),
        (
            True,
            "__consumer_offsets holds 200 MB, has grown by 120 MB in the last hour, and was not cleaned for 3 h; 140 MB are cleanable.",
            "The cleaner died: restart the broker.",
        ),
    ]


@pytest.mark.parametrize(("overdue_ms", "is_ill"), [(0, False), (OVERDUE_MS_MAX, False), (OVERDUE_MS_MAX + 1, True)])
def test_a_topic_is_ill_when_the_cleaner_does_not_get_to_it(overdue_ms: int, is_ill: bool) -> None:
    by_subject = {each.subject: each for each in findings(RUNNING, [topic(overdue_ms=overdue_ms)])}
    assert by_subject["topic __consumer_offsets"].is_ill is is_ill
    assert by_subject["cleaner"].is_ill is False
    assert ("log.cleaner.threads" in by_subject["topic __consumer_offsets"].advice) is is_ill


def test_a_cleaner_that_is_off_is_ill_only_when_it_is_missed() -> None:
    off = cleaner(state=CleanerState.OFF, threads=0)
    assert [each.is_ill for each in findings(off, [topic()])] == [False, False]
    unhealthy = findings(off, [topic(overdue_ms=HOUR)])
    assert [each.is_ill for each in unhealthy] == [True, True]
    assert all("log.cleaner.enable=true" in each.advice for each in unhealthy)


def test_a_cleaner_that_hangs() -> None:
    assert findings(cleaner(idle_ms=300_001), [])[0].sentence == "The cleaner has not checked for work for 5 min."
    assert not findings(cleaner(idle_ms=300_001, backoff_ms=60_000), [])[0].is_ill


def test_files_do_not_tell_whether_a_cleaner_runs() -> None:
    unknown = CleanerFacts(state=CleanerState.UNKNOWN)
    found = {each.subject: each for each in findings(unknown, [topic(overdue_ms=HOUR)])}
    assert not found["cleaner"].is_ill
    assert "overdue for cleaning" in found["cleaner"].sentence
    assert "was not cleaned for 60 min" in found["topic __consumer_offsets"].sentence


def test_partitions_at_fault_come_first_and_are_bounded() -> None:
    faults = [PartitionFault("t", number, "the batch at offset 3 is damaged", 5) for number in range(FINDINGS_MAX + 7)]
    found = findings(
        RUNNING, [topic(name="t", overdue_ms=HOUR)], uncleanable=faults, offline=[PartitionFault("u", 0, "the disk is full", 0)]
    )
    unhealthy = [each for each in found if each.is_ill]
    assert found[: len(unhealthy)] == tuple(unhealthy)
    assert len(unhealthy) == 1 + FINDINGS_MAX + 1 + 1
    by_subject = {each.subject: each for each in found}
    assert by_subject["partition t-0"].sentence == "t-0 cannot be cleaned: the batch at offset 3 is damaged."
    assert by_subject["partitions"].sentence == "7 more partitions: each one cannot be cleaned."
    assert by_subject["partition u-0"].sentence == "u-0 is offline: the disk is full."
    assert by_subject["topic t"].advice == "One of its partitions cannot be cleaned: see the finding of that partition."


def test_growth_by_the_hour() -> None:
    assert topic(grown_bytes=50, grown_over_ms=HOUR // 2).growth_bytes_per_hour == 100
    assert topic(grown_bytes=-50, grown_over_ms=HOUR).growth_bytes_per_hour == -50
    assert topic().growth_bytes_per_hour is None


def test_words_for_sizes_and_times() -> None:
    assert [size_text(size) for size in (0, 999, 1000, 1_234_000, 120_000_000, 999_600_000, 5_500_000_000_000, -1000)] == [
        "0 B",
        "999 B",
        "1 kB",
        "1.23 MB",
        "120 MB",
        "1 GB",
        "5.5 TB",
        "-1 kB",
    ]
    times = (0, 90_000, 120_000, 7_199_000, 7_200_000, 172_800_000)
    assert [duration_text(ms) for ms in times] == ["0 s", "90 s", "2 min", "120 min", "2 h", "2 days"]
