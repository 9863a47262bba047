"""Checks of a query with Trigger.AvailableNow before it reads."""

import pytest

from ottla.core.model import TopicPartition
from ottla.spark.source.available_now import AvailableNowError, verify_end
from ottla.spark.source.stream_offsets import Offsets

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def _verify(end: dict[TopicPartition, int], frozen: dict[TopicPartition, int], latest: dict[TopicPartition, int]) -> None:
    verify_end(*(Offsets(each, {}) for each in (end, frozen, latest)))


def test_an_end_on_the_way_is_fine():
    _verify({A: 5, B: 9}, {A: 9, B: 9}, {A: 20, B: 9})


@pytest.mark.parametrize(
    ("end", "frozen", "latest", "message"),
    [
        ({A: 5}, {A: 5, B: 5}, {A: 5, B: 5}, "other topic partitions at the end .* Set out for: t-0, t-1. End: t-0"),
        ({A: 6}, {A: 5}, {A: 9}, "lies behind what the query set out for: t-0"),
        ({A: 5, B: 5}, {A: 5, B: 5}, {A: 5}, "have been lost during running query with Trigger.AvailableNow: t-1"),
        ({A: 5}, {A: 5}, {A: 4}, "less than end offset during running query with Trigger.AvailableNow: t-0"),
    ],
)
def test_what_changed_meanwhile(end, frozen, latest, message: str):
    with pytest.raises(AvailableNowError, match=message):
        _verify(end, frozen, latest)
