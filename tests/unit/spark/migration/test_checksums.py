"""Checksums of sets of offsets."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ottla.spark.migration.checksums import NO_OFFSETS, Checksum, add_up, checksum

OFFSETS = st.sets(st.integers(0, 2**62), max_size=20)


def of(offsets: set[int]) -> Checksum:
    return checksum(np.array(sorted(offsets), np.int64))


@given(OFFSETS, OFFSETS)
def test_checksums_add_up_and_differ_where_sets_do(left: set[int], right: set[int]) -> None:
    assert (of(left) == of(right)) == (left == right)
    assert of(left).plus(of(right - left)) == of(left | right)
    assert of(left | right).minus(of(left)) == of(right - left)


def test_a_hole_that_moves_is_seen() -> None:
    offsets = set(range(10_000))
    assert len({of(offsets - {hole}) for hole in offsets}) == len(offsets)


def test_sums_by_key() -> None:
    total = {0: Checksum(1, 2**64 - 1)}
    add_up(total, {0: Checksum(2, 3), 1: Checksum(1, 1)})
    assert total == {0: Checksum(3, 2), 1: Checksum(1, 1)}
    assert of(set()) == NO_OFFSETS
