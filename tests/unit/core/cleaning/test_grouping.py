"""Grouping: neighbours join while log, indexes and offsets of one segment have room."""

from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.cleaning.grouping import group_segments


class Sizes(NamedTuple):
    base_offset: int
    next_base_offset: int
    size_bytes: int
    offset_index_bytes: int = 0
    time_index_bytes: int = 0


def bases(segments: list[Sizes], segment_bytes: int = 100, segment_index_bytes: int = 100) -> list[list[int]]:
    found = group_segments(segments, segment_bytes=segment_bytes, segment_index_bytes=segment_index_bytes)
    return [[segment.base_offset for segment in group] for group in found]


def test_neighbours_join_up_to_the_size_of_a_segment() -> None:
    assert bases([Sizes(0, 10, 40), Sizes(10, 20, 60), Sizes(20, 30, 1), Sizes(30, 40, 100)]) == [[0, 10], [20], [30]]
    assert bases([]) == []


def test_a_segment_that_is_too_large_stands_alone() -> None:
    assert bases([Sizes(0, 10, 400), Sizes(10, 20, 0), Sizes(20, 30, 5)]) == [[0], [10, 20]]


@pytest.mark.parametrize("index", ["offset_index_bytes", "time_index_bytes"])
def test_the_indexes_need_room_too(index: str) -> None:
    segments = [Sizes(0, 10, 1, **{index: 60}), Sizes(10, 20, 1, **{index: 40}), Sizes(20, 30, 1, **{index: 1})]
    assert bases(segments) == [[0, 10], [20]]


def test_offsets_of_a_group_fit_31_bits() -> None:
    assert bases([Sizes(5, 10, 1), Sizes(10, 2**31 + 5, 1)]) == [[5, 10]]
    assert bases([Sizes(5, 10, 1), Sizes(10, 2**31 + 6, 1)]) == [[5], [10]]
    assert bases([Sizes(5, 10, 1), Sizes(10, 2**31 + 6, 0)]) == [[5, 10]]


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 60), st.integers(0, 60))))
def test_nothing_is_lost_and_no_group_is_too_large(sizes: list[tuple[int, int, int]]) -> None:
    segments = [Sizes(10 * number, 10 * number + 10, *each) for number, each in enumerate(sizes)]
    found = group_segments(segments, segment_bytes=100, segment_index_bytes=80)
    assert [segment for group in found for segment in group] == segments
    for group in found:
        totals = [sum(segment[column] for segment in group) for column in (2, 3, 4)]
        assert len(group) == 1 or (totals[0] <= 100 and max(totals[1:]) <= 80)
