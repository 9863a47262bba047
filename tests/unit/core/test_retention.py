"""Which of the oldest segments go: by the log's start, by size, by age."""

from typing import Any

from ottla.core.retention import AgingSegment, expired_segments

SEGMENTS = [AgingSegment(10, 100, 1000), AgingSegment(20, 100, 3000), AgingSegment(30, 100, 2000), AgingSegment(40, 50, 5000)]
NOTHING: dict[str, Any] = {
    "log_start_offset": 0,
    "high_watermark": 40,
    "size_bytes": 350,
    "by_age_and_size": True,
    "retention_ms": -1,
    "retention_bytes": -1,
    "now_ms": 6000,
}


def expired(**given: Any) -> int:
    return expired_segments(lambda: SEGMENTS, **(NOTHING | given))


def test_without_limits_everything_stays() -> None:
    assert expired() == 0


def test_below_the_start_whole_segments_go_also_from_a_compacted_log() -> None:
    assert expired(log_start_offset=9) == 0
    assert expired(log_start_offset=10) == 1
    assert expired(log_start_offset=29) == 2
    assert expired(log_start_offset=30, by_age_and_size=False) == 3


def test_by_size_the_log_never_falls_below_its_limit() -> None:
    assert expired(retention_bytes=350) == 0
    assert expired(retention_bytes=251) == 0
    assert expired(retention_bytes=250) == 1
    assert expired(retention_bytes=0) == 4, "an active segment goes, too, when nothing is to be kept"
    assert expired(retention_bytes=0, by_age_and_size=False) == 0


def test_by_age_an_old_segment_behind_a_young_one_stays() -> None:
    assert expired(retention_ms=5000) == 0
    assert expired(retention_ms=4999) == 1
    assert expired(retention_ms=3500) == 1
    assert expired(retention_ms=2000) == 3
    assert expired(retention_ms=0) == 4
    assert expired(retention_ms=0, by_age_and_size=False) == 0


def test_nothing_above_the_high_watermark_goes() -> None:
    assert expired(retention_ms=0, high_watermark=29) == 2


def test_segments_are_looked_at_no_further_than_needed() -> None:
    seen = []

    def segments() -> Any:
        for segment in SEGMENTS:
            seen.append(segment)
            yield segment

    assert expired_segments(segments, **(NOTHING | {"retention_ms": 4999})) == 1
    assert seen == [SEGMENTS[0], SEGMENTS[0], SEGMENTS[1]]
