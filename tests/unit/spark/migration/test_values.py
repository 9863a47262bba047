"""The values of a migration."""

from ottla.spark.migration.values import Extent


def test_an_extent_has_the_offsets_before_its_end() -> None:
    assert Extent(3, 10).size == 7
