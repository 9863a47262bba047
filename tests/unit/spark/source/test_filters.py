"""Filters make ranges smaller and never drop a row: each kind by example, and at random against a check of every record."""

import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
)

from ottla.core.model import TopicPartition
from ottla.spark.source.filters import pruning_of
from ottla.spark.source.ranges import OffsetRange

RANGES = [OffsetRange("t", partition, 10, 20, "id") for partition in range(4)]
EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)


def _at_us(microseconds: int) -> datetime.datetime:
    return EPOCH + datetime.timedelta(microseconds=microseconds)


def _no_lookup(partitions: Any, timestamp_ms: int) -> Any:
    raise AssertionError("a broker is asked")


def _left(*pushed: Filter) -> list[tuple[int, int, int]]:
    return [(each.partition, each.start, each.end) for each in pruning_of(pushed).apply(RANGES, _no_lookup)]


PARTITION, OFFSET, TIMESTAMP = ("partition",), ("offset",), ("timestamp",)


@pytest.mark.parametrize(
    ("pushed", "partitions"),
    [
        (EqualTo(PARTITION, 2), {2}),
        (EqualNullSafe(PARTITION, 2), {2}),
        (In(PARTITION, (1, 3, None, 9)), {1, 3}),
        (In(PARTITION, (None,)), set()),
        (GreaterThan(PARTITION, 1), {2, 3}),
        (GreaterThanOrEqual(PARTITION, 1), {1, 2, 3}),
        (LessThan(PARTITION, 1), {0}),
        (LessThanOrEqual(PARTITION, 1), {0, 1}),
        (EqualTo(PARTITION, "2"), {0, 1, 2, 3}),
        (EqualNullSafe(PARTITION, None), {0, 1, 2, 3}),
        (In(PARTITION, (1, "3")), {0, 1, 2, 3}),
        (EqualTo(("other",), 2), {0, 1, 2, 3}),
        (EqualTo(("partition", "nested"), 2), {0, 1, 2, 3}),
        (IsNotNull(PARTITION), {0, 1, 2, 3}),
        (Not(EqualTo(PARTITION, 2)), {0, 1, 2, 3}),
    ],
)
def test_partitions(pushed: Filter, partitions: set[int]):
    assert _left(pushed) == [(partition, 10, 20) for partition in sorted(partitions)]


@pytest.mark.parametrize(
    ("pushed", "start", "end"),
    [
        ([EqualTo(OFFSET, 12)], 12, 13),
        ([In(OFFSET, (18, 12, 30))], 12, 20),
        ([GreaterThan(OFFSET, 12)], 13, 20),
        ([GreaterThanOrEqual(OFFSET, 12)], 12, 20),
        ([LessThan(OFFSET, 12)], 10, 12),
        ([LessThanOrEqual(OFFSET, 12)], 10, 13),
        ([GreaterThan(OFFSET, 12), LessThan(OFFSET, 15), GreaterThan(OFFSET, 2)], 13, 15),
    ],
)
def test_offsets(pushed: list[Filter], start: int, end: int):
    assert _left(*pushed, EqualTo(PARTITION, 0)) == [(0, start, end)]


def test_nothing_can_be_left():
    assert _left(GreaterThan(OFFSET, 12), LessThan(OFFSET, 12)) == _left(In(PARTITION, (1, 2)), In(PARTITION, (0, 3))) == []


@pytest.mark.parametrize(
    ("pushed", "asked_ms"),
    [
        (GreaterThanOrEqual(TIMESTAMP, _at_us(5_000)), 5),
        (GreaterThanOrEqual(TIMESTAMP, _at_us(5_001)), 6),
        (GreaterThan(TIMESTAMP, _at_us(5_000)), 6),
        (GreaterThan(TIMESTAMP, _at_us(5_999)), 6),
        (EqualTo(TIMESTAMP, _at_us(5_000).astimezone(datetime.timezone(datetime.timedelta(hours=5)))), 5),
        (In(TIMESTAMP, (_at_us(9_000), _at_us(7_000), _at_us(6_500))), 7),
    ],
)
def test_a_time_begins_at_the_first_record_that_is_late_enough(pushed: Filter, asked_ms: int):
    def first_offsets(partitions: Any, timestamp_ms: int) -> dict[TopicPartition, int]:
        assert timestamp_ms == asked_ms
        assert partitions == [TopicPartition("t", partition) for partition in range(4)]
        return dict(zip(partitions, (3, 15, 20, -1), strict=True))

    left = pruning_of([pushed]).apply(RANGES, first_offsets)
    assert left == [RANGES[0], OffsetRange("t", 1, 15, 20, "id")]


@pytest.mark.parametrize(
    "pushed",
    [
        LessThan(TIMESTAMP, _at_us(5_000)),
        LessThanOrEqual(TIMESTAMP, _at_us(5_000)),
        GreaterThan(TIMESTAMP, _at_us(-7_000)),
        GreaterThan(TIMESTAMP, datetime.datetime(2020, 1, 1)),
        GreaterThan(TIMESTAMP, 5),
    ],
)
def test_other_times_leave_everything_and_nothing_is_asked(pushed: Filter):
    assert len(_left(pushed)) == 4


comparisons = st.sampled_from([EqualTo, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual])
TRUE_OF = {
    EqualTo: lambda a, b: a == b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
}


@given(
    st.lists(
        st.one_of(
            st.tuples(comparisons, st.just(OFFSET), st.integers(8, 22)),
            st.tuples(comparisons, st.just(PARTITION), st.integers(-1, 4)),
            st.tuples(comparisons, st.just(TIMESTAMP), st.integers(0, 12_000).map(_at_us)),
        ),
        max_size=4,
    ),
    st.lists(st.integers(0, 12), min_size=10, max_size=10),
)
def test_no_row_is_lost(pushed: list[Any], times_ms: list[int]):
    rows = [
        {"partition": each.partition, "offset": offset, "timestamp": _at_us(times_ms[offset - 10] * 1000)}
        for each in RANGES
        for offset in range(each.start, each.end)
    ]

    def first_offsets(partitions: Any, timestamp_ms: int) -> dict[TopicPartition, int]:
        late = [10 + index for index, at_ms in enumerate(times_ms) if at_ms >= timestamp_ms]
        return dict.fromkeys(partitions, late[0] if late else -1)

    wanted = {(row["partition"], row["offset"]) for row in rows if all(TRUE_OF[kind](row[name], value) for kind, (name,), value in pushed)}
    left = pruning_of([kind(name, value) for kind, name, value in pushed]).apply(RANGES, first_offsets)
    assert wanted <= {(each.partition, offset) for each in left for offset in range(each.start, each.end)}
