"""Ranges from options and offsets, and what is missing."""

import pytest

from ottla.consumer.cluster import EARLIEST, LATEST
from ottla.core.model import TopicPartition
from ottla.spark.options import OptionError
from ottla.spark.planning import DataLossError, OffsetRange, plan_ranges

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
EARLY, LATE = {A: 10, B: 0}, {A: 50, B: 30}


def test_from_earliest_to_latest():
    planned = plan_ranges(EARLIEST, LATEST, EARLY, LATE, fail_on_data_loss=True)
    assert planned.ranges == [OffsetRange(A, 10, 50), OffsetRange(B, 0, 30)]
    assert planned.warnings == []


def test_empty_ranges_are_dropped():
    planned = plan_ranges({A: 50, B: 5}, {A: LATEST, B: 5}, EARLY, LATE, fail_on_data_loss=True)
    assert planned.ranges == []


def test_offsets_of_their_own_and_words_in_numbers():
    planned = plan_ranges({A: EARLIEST, B: 5}, {A: 20, B: LATEST}, EARLY, LATE, fail_on_data_loss=True)
    assert planned.ranges == [OffsetRange(A, 10, 20), OffsetRange(B, 5, 30)]


@pytest.mark.parametrize("given", [{A: 20}, {A: 20, B: 5, TopicPartition("t", 2): 0}])
def test_every_partition_must_be_named(given: dict[TopicPartition, int]):
    with pytest.raises(OptionError, match=r"you must specify all TopicPartitions.*Specified: t-0.*Assigned: t-0, t-1"):
        plan_ranges(given, LATEST, EARLY, LATE, fail_on_data_loss=True)
    with pytest.raises(OptionError, match="If endingOffsets contains"):
        plan_ranges(EARLIEST, given, EARLY, LATE, fail_on_data_loss=True)


@pytest.mark.parametrize(
    ("starting", "ending", "kept"),
    [
        ({A: 9, B: 5}, LATEST, [OffsetRange(A, 10, 50), OffsetRange(B, 5, 30)]),
        ({A: 51, B: 5}, LATEST, [OffsetRange(B, 5, 30)]),
        (EARLIEST, {A: 51, B: 5}, [OffsetRange(A, 10, 50), OffsetRange(B, 0, 5)]),
        (EARLIEST, {A: 9, B: 5}, [OffsetRange(B, 0, 5)]),
    ],
)
def test_records_that_are_gone_fail_or_are_told(starting, ending, kept: list[OffsetRange]):
    with pytest.raises(DataLossError, match=r"of t-0, which holds 10 to 50.*failOnDataLoss"):
        plan_ranges(starting, ending, EARLY, LATE, fail_on_data_loss=True)
    planned = plan_ranges(starting, ending, EARLY, LATE, fail_on_data_loss=False)
    assert planned.ranges == kept
    assert len(planned.warnings) == 1
