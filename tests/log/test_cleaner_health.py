"""Which values are unhealthy, and the findings about them."""

import pytest

from ottla.core.diagnosis.cleaner_health import (
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
