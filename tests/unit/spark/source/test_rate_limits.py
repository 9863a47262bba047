"""Limits of a micro-batch: the arithmetic of Spark's own Kafka source, with the cases of KafkaMicroBatchSourceSuite."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.core.model import TopicPartition
from ottla.spark.source.rate_limits import BatchThreshold, share


def _places(offsets: list[int]) -> dict[TopicPartition, int]:
    return {TopicPartition("t", number): offset for number, offset in enumerate(offsets)}


@pytest.mark.parametrize(
    ("limit", "ends", "shared"),
    [
        (10, [99, 19, 1], [8, 1, 1]),
        (10, [5, 5], [5, 5]),
        (4, [2, 2], [2, 2]),
        (1, [1000, 1], [1, 1]),
        (3, [1, 1, 1, 1], [1, 1, 1, 1]),
        (2**63 - 1, [2**63 - 1, 5], [2**63 - 1, 5]),
    ],
)
def test_each_gets_its_share_and_none_starves(limit: int, ends: list[int], shared: list[int]):
    assert share(limit, _places([0] * len(ends)), _places(ends)) == _places(shared)


def test_batch_after_batch_as_spark_s_own_suite_has_it():
    ends, at, batches = _places([101, 11, 1]), _places([0, 0, 0]), []
    for _ in range(3):
        shared = share(10, at, ends)
        batches.append([shared[partition] - at[partition] for partition in sorted(ends)])
        at = shared
    assert batches == [[8, 1, 1], [9, 1, 0], [9, 1, 0]]


def test_shares_are_counted_from_where_a_partition_is():
    assert share(10, _places([90, 0, 50]), _places([100, 10, 50])) == _places([95, 5, 50])


def test_a_partition_without_a_start_or_behind_it_keeps_its_end():
    starts = {TopicPartition("t", 0): 10, TopicPartition("t", 1): 0}
    assert share(5, starts, _places([7, 10, 30])) == _places([7, 5, 30])
    assert share(5, {}, _places([7])) == _places([7])


@given(st.integers(1, 10_000), st.lists(st.tuples(st.integers(0, 1_000), st.integers(0, 5_000)), min_size=1, max_size=8))
def test_no_share_goes_too_far_and_all_go_on(limit: int, limits: list[tuple[int, int]]):
    starts, ends = _places([start for start, _ in limits]), _places([start + size for start, size in limits])
    shared = share(limit, starts, ends)
    assert all(starts[partition] <= shared[partition] <= ends[partition] for partition in ends)
    assert all(shared[partition] > starts[partition] for partition in ends if ends[partition] > starts[partition])
    assert sum(shared.values()) - sum(starts.values()) <= limit + len(limits)


def test_a_batch_waits_for_enough_or_for_long_enough():
    threshold = BatchThreshold(10, 1_000)
    starts = _places([5])
    assert threshold.admit(starts, _places([6]), 1)  # the first one waits for nothing
    assert not threshold.admit(starts, _places([14]), 2)
    assert threshold.admit(starts, _places([15]), 3)
    assert not threshold.admit(starts, _places([5]), 1_002)
    assert threshold.admit(starts, _places([5]), 1_003)
    assert not threshold.admit(starts, _places([14]), 1_004)
    assert threshold.admit(starts, {**_places([14]), TopicPartition("new", 0): 1}, 1_005)
