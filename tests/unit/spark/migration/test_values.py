"""The values of a migration."""

from ottla.spark.migration.values import Extent


def test_an_extent_has_the_offsets_before_its_end() -> None:
    assert Extent(3, 10).size == 7


def test_offsets_cut_an_extent_also_those_outside() -> None:
    assert Extent(3, 10).cut_at([1, 5, 5, 12]) == [(3, 3), (3, 5), (5, 5), (5, 10), (10, 10)]
    assert Extent(3, 10).cut_at([]) == [(3, 10)]
