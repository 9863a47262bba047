"""Lags in time, on logs of which everything is known, some ends, or next to nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.history.time_lag import (
    DRAIN_MS_MAX,
    EXTRAPOLATED_MS_MAX,
    NONE,
    UNKNOWN,
    LogEnd,
    Position,
    Quality,
    RecordTime,
    RecordTimes,
    TimeLag,
    drain_time,
    freshness,
    next_record_age,
    rate,
    since_truncation,
)

RECORDS = RecordTimes([RecordTime(offset, offset * 1_000) for offset in range(10)], [])
ENDS = RecordTimes([], [LogEnd(0, 0), LogEnd(10_000, 10), LogEnd(20_000, 10), LogEnd(30_000, 20)])
NOTHING = RecordTimes([], [])


def at(committed: int, end: int, *, start: int = 0, now_ms: int = 40_000) -> Position:
    return Position(committed, start, end, now_ms)


@pytest.mark.parametrize(
    ("position", "times", "age", "fresh"),
    [
        pytest.param(at(4, 10), RECORDS, (36_000, "exact"), (6_000, "exact"), id="exact"),
        pytest.param(at(10, 10), RECORDS, (0, "exact"), (0, "exact"), id="no lag"),
        pytest.param(at(10, 10), NOTHING, (0, "exact"), (0, "exact"), id="idle, nothing known"),
        pytest.param(at(0, 0), NOTHING, (0, "exact"), (0, "exact"), id="empty"),
        pytest.param(at(0, 10), RECORDS, (40_000, "exact"), (None, "unknown"), id="nothing was read yet"),
        pytest.param(at(12, 10), RECORDS, (None, "unknown"), (None, "unknown"), id="beyond the end"),
        pytest.param(at(4, 10), NOTHING, (None, "unknown"), (None, "unknown"), id="nothing known"),
        pytest.param(at(4, 20), ENDS, (35_000, "interpolated"), (26_000, "interpolated"), id="interpolated"),
        pytest.param(at(10, 20), ENDS, (19_000, "interpolated"), (20_000, "interpolated"), id="written after a pause"),
        pytest.param(at(2, 10, start=10), ENDS, (0, "exact"), (8_000, "interpolated"), id="all that was left is deleted"),
        pytest.param(at(2, 10, start=6), RECORDS, (34_000, "exact"), (8_000, "exact"), id="before the start"),
        pytest.param(at(4, 20), RecordTimes([], [LogEnd(9_000, 20)]), (None, "unknown"), (None, "unknown"), id="one end"),
        pytest.param(at(4, 10, now_ms=1_000), RECORDS, (0, "exact"), (6_000, "exact"), id="a record from the future"),
    ],
)
def test_the_age_of_the_next_record_and_the_freshness(
    position: Position, times: RecordTimes, age: tuple[int | None, str], fresh: tuple[int | None, str]
) -> None:
    assert (next_record_age(position, times), freshness(position, times)) == (age, fresh)


def test_of_a_compacted_log_the_records_count_that_are_left() -> None:
    times = RecordTimes([RecordTime(1, 1_000), RecordTime(7, 7_000)], [])
    assert next_record_age(at(3, 10), times) == (33_000, Quality.EXACT)
    assert freshness(at(3, 10), times) == (6_000, Quality.EXACT)
    assert next_record_age(at(8, 10), times) == NONE, "only markers, or nothing, are left"


def test_a_record_before_the_first_known_end_is_never_astronomically_old() -> None:
    times = RecordTimes([], [LogEnd(1_000_000_000, 1_000_000), LogEnd(1_000_001_000, 1_000_001)])
    position = Position(5, 0, 1_000_001, 1_000_002_000)
    assert next_record_age(position, times) == (2_000 + EXTRAPOLATED_MS_MAX, Quality.CAPPED)
    near = Position(999_990, 0, 1_000_001, 1_000_002_000)
    assert next_record_age(near, times) == (11_000, Quality.CAPPED)
    assert freshness(near, times) == (11_000, Quality.CAPPED)


def test_ends_before_a_truncation_are_of_other_records() -> None:
    ends = [LogEnd(0, 5), LogEnd(10, 90), LogEnd(20, 2), LogEnd(30, 7)]
    assert since_truncation(reversed(ends)) == ends[2:]
    assert since_truncation([]) == []


def test_rates_of_the_last_ten_minutes() -> None:
    assert rate([(0, 0), (700_000, 100), (701_000, 160)], 702_000) == 30
    assert rate([(0, 0)], 10) is None
    assert rate([(10, 0), (10, 5)], 10) is None, "no time has passed"
    assert rate([(0, 50), (10_000, 20)], 10_000) == -3
    assert rate([(0, 0), (5, 7), (11, 99)], 10) == 700, "nothing from the future"


@pytest.mark.parametrize(
    ("position", "consumed", "produced", "found"),
    [
        (at(0, 100), 15.0, 5.0, TimeLag(10_000, Quality.INTERPOLATED)),
        (at(100, 100), None, None, NONE),
        (at(0, 100), 5.0, 5.0, UNKNOWN),
        (at(0, 100), 5.0, 6.0, UNKNOWN),
        (at(0, 100), None, 6.0, UNKNOWN),
        (at(101, 100), 9.0, 6.0, UNKNOWN),
        (at(0, 10**9), 5.000001, 5.0, TimeLag(DRAIN_MS_MAX, Quality.CAPPED)),
    ],
)
def test_the_time_until_the_lag_is_gone(position: Position, consumed: float | None, produced: float | None, found: TimeLag) -> None:
    assert drain_time(position, consumed, produced) == found


@given(
    st.lists(st.builds(RecordTime, st.integers(0, 40), st.integers(0, 10**6)), unique_by=lambda each: each.offset),
    st.lists(st.builds(LogEnd, st.integers(0, 10**6), st.integers(0, 40))),
    st.builds(Position, st.integers(-1, 50), st.integers(0, 40), st.integers(0, 45), st.integers(0, 10**6)),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 50)), max_size=4),
)
def test_whatever_is_known_no_lag_is_negative_or_endless(
    records: list[RecordTime], ends: list[LogEnd], position: Position, commits: list[tuple[int, int]]
) -> None:
    times = RecordTimes(records, ends)
    drain = drain_time(position, rate(commits, position.now_ms), rate([(each.at_ms, each.end) for each in ends], position.now_ms))
    for ms, quality in (next_record_age(position, times), freshness(position, times), drain):
        assert (ms is None) == (quality is Quality.UNKNOWN)
        assert ms is None or 0 <= ms <= DRAIN_MS_MAX


@given(st.lists(st.tuples(st.integers(1, 500), st.integers(1, 20)), min_size=2, max_size=20), st.data())
def test_an_interpolated_time_is_between_the_measurements_around_the_record(steps: list[tuple[int, int]], data: st.DataObject) -> None:
    at_ms, end, ends, written = 0, 0, [LogEnd(0, 0)], {}
    for ms, count in steps:
        for number in range(count):
            written[end + number] = (at_ms, at_ms + ms)
        at_ms, end = at_ms + ms, end + count
        ends.append(LogEnd(at_ms, end))
    offset = data.draw(st.integers(0, end - 1))
    found = RecordTimes([], ends).estimate(offset)
    earliest, latest = written[offset]
    assert found.ms is not None
    assert earliest <= found.ms <= latest
