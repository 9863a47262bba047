"""Offsets of groups in the target."""

from ottla.spark.migration.contents import Place
from ottla.spark.migration.forecast import Counts
from ottla.spark.migration.offsets import Carried, by_group, by_partition, carry, forecast
from ottla.spark.migration.values import NOTHING, Extent


def test_a_group_continues_at_its_first_unread_record_or_at_the_end() -> None:
    places = {0: Place(first_unread=(3, NOTHING), replayed=(2, 0)), 1: Place(first_unread=(0, 4), replayed=(0, 1))}
    carried = carry(["a", "b"], places, {0: Extent(0, 9), 1: Extent(0, 5), 2: Extent(6, 6)})
    assert carried == {"a": Carried({0: 3, 1: 0, 2: 6}, 2), "b": Carried({0: 9, 1: 4, 2: 6}, 1)}


def test_partitions_without_a_commit_are_not_read() -> None:
    positions = {"a": {0: 5}, "b": {0: 3, 1: 8}}
    assert by_partition(positions, 3) == {0: (3, 5), 1: (0, 8), 2: (0, 0)}
    assert by_group(positions, 3) == ((5, 0, 0), (3, 8, 0))


def test_a_forecast_counts_what_comes_behind_what_is_there() -> None:
    places = {0: Place(first_unread=(3, NOTHING), replayed=(2, 0))}
    counts = {0: Counts(10, before=(0, 4), read=(6, 7), read_before=(0, 4)), 1: Counts(1, before=(1, 0), read=(1, 0), read_before=(1, 0))}
    assert forecast(["a", "b"], places, {0: Extent(0, 9), 1: Extent(5, 5)}, counts) == {
        "a": Carried({0: 3, 1: 6}, 8),
        "b": Carried({0: 13, 1: 5}, 3),
    }
