"""Splitting of ranges: the cases of Spark's own KafkaOffsetRangeCalculatorSuite, re-expressed; no offset is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.source.ranges import OffsetRange, split

Limits = list[tuple[int, int]]


def _split(ranges: Limits, records_max: int | None = None, partitions_min: int | None = None) -> list[tuple[int, int, int]]:
    given = [OffsetRange("t", number, start, end, "id") for number, (start, end) in enumerate(ranges)]
    found = split(given, records_max=records_max, partitions_min=partitions_min)
    assert {each.topic_id for each in found} <= {"id"}
    return [(each.partition, each.start, each.end) for each in found]


@pytest.mark.parametrize(
    ("partitions_min", "ranges", "expected"),
    [
        (None, [(1, 2), (1, 1)], [(0, 1, 2)]),
        (3, [(1, 2), (1, 2), (1, 2)], [(0, 1, 2), (1, 1, 2), (2, 1, 2)]),
        (4, [(1, 5)], [(0, 1, 2), (0, 2, 3), (0, 3, 4), (0, 4, 5)]),
        (4, [(1, 5), (1, 21)], [(0, 1, 5), (1, 1, 7), (1, 7, 14), (1, 14, 21)]),
        # SPARK-30656: empty ranges do not count
        (4, [(1, 1), (1, 21)], [(1, 1, 6), (1, 6, 11), (1, 11, 16), (1, 16, 21)]),
        (4, [(1, 5), (1, 21), (1, 1)], [(0, 1, 5), (1, 1, 7), (1, 7, 14), (1, 14, 21)]),
        (4, [(1, 2), (1, 1001)], [(0, 1, 2), (1, 1, 334), (1, 334, 667), (1, 667, 1001)]),
        (1, [(1, 5), (1, 21)], [(0, 1, 5), (1, 1, 21)]),
        (3, [(1, 11)], [(0, 1, 4), (0, 4, 7), (0, 7, 11)]),
        # SPARK-28489: no offset is dropped
        (6, [(0, 10), (0, 10), (0, 1)], [(0, 0, 3), (0, 3, 6), (0, 6, 10), (1, 0, 3), (1, 3, 6), (1, 6, 10), (2, 0, 1)]),
        # SPARK-36576: small ranges leave the arithmetic first
        (
            6,
            [(0, 500), (0, 12000), (0, 15001)],
            [(0, 0, 500), (1, 0, 6000), (1, 6000, 12000), (2, 0, 5000), (2, 5000, 10000), (2, 10000, 15001)],
        ),
        (6, [(0, 1), (0, 1), (0, 10000)], [(0, 0, 1), (1, 0, 1), (2, 0, 2500), (2, 2500, 5000), (2, 5000, 7500), (2, 7500, 10000)]),
        # KafkaOffsetReaderSuite: ranges of resolved offsets
        (4, [(0, 100), (0, 3)], [(0, 0, 33), (0, 33, 66), (0, 66, 100), (1, 0, 3)]),
    ],
)
def test_partitions_min(partitions_min: int | None, ranges: Limits, expected: list[tuple[int, int, int]]):
    assert _split(ranges, partitions_min=partitions_min) == expected


def test_three_large_ranges():
    expected = [(number, start, start + 5000) for number, end in enumerate((10_000, 15_000, 20_000)) for start in range(0, end, 5000)]
    assert _split([(0, 10_000), (0, 15_000), (0, 20_000)], partitions_min=9) == expected


@pytest.mark.parametrize(
    ("records_max", "partitions_min", "ranges", "expected"),
    [
        # SPARK-49259
        (4, None, [(1, 5)], [(0, 1, 5)]),
        (4, None, [(1, 6)], [(0, 1, 3), (0, 3, 6)]),
        (
            20,
            None,
            [(1, 40), (1, 50), (1, 60)],
            [(0, 1, 20), (0, 20, 40), (1, 1, 17), (1, 17, 33), (1, 33, 50), (2, 1, 20), (2, 20, 40), (2, 40, 60)],
        ),
        (20, 1, [(1, 40)], [(0, 1, 20), (0, 20, 40)]),
        (20, 4, [(1, 40)], [(0, 1, 10), (0, 10, 20), (0, 20, 30), (0, 30, 40)]),
    ],
)
def test_records_max_comes_first(records_max: int, partitions_min: int | None, ranges: Limits, expected: list[tuple[int, int, int]]):
    assert _split(ranges, records_max, partitions_min) == expected


@given(
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(-10, 5_000)), min_size=1, max_size=8),
    st.none() | st.integers(50, 2_000),
    st.none() | st.integers(1, 40),
)
def test_every_offset_is_in_one_range(limits: list[tuple[int, int]], records_max: int | None, partitions_min: int | None):
    ranges = [(start, start + size) for start, size in limits]
    found = _split(ranges, records_max, partitions_min)
    for number, (start, end) in enumerate(ranges):
        mine = [(low, high) for partition, low, high in found if partition == number]
        assert all(low < high for low, high in mine)
        assert [low for low, _ in mine] == ([start, *(high for _, high in mine[:-1])] if end > start else [])
        assert not mine or mine[-1][1] == end
        assert records_max is None or all(high - low <= records_max for low, high in mine)
