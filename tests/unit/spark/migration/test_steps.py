"""Tasks of a batch; the Spark jobs themselves run in tests/spark/test_migrate.py."""

from ottla.spark.migration.checksums import Checksum
from ottla.spark.migration.chunks import Seen
from ottla.spark.migration.steps import SeenOffsets, tasks_of, tasks_of_parts
from ottla.spark.migration.values import Extent
from ottla.spark.source.ranges import OffsetRange


def test_a_partition_is_read_by_one_task() -> None:
    tasks = tasks_of("wide", "id", {2: Extent(0, 5), 0: Extent(3, 100), 1: Extent(0, 5)}, 2)
    assert [task.ranges for task in tasks] == [
        (OffsetRange("wide", 0, 3, 100, "id"),),
        (OffsetRange("wide", 1, 0, 5, "id"), OffsetRange("wide", 2, 0, 5, "id")),
    ]


def test_parts_of_a_partition_are_read_by_several_tasks() -> None:
    tasks = tasks_of_parts("narrow", "id", {0: [Extent(0, 5), Extent(5, 9)]}, 2)
    assert [task.ranges for task in tasks] == [(OffsetRange("narrow", 0, 0, 5, "id"),), (OffsetRange("narrow", 0, 5, 9, "id"),)]


def test_what_tasks_have_read_adds_up() -> None:
    sums = SeenOffsets()
    first = sums.zero({})
    assert sums.addInPlace(first, {Seen(0, True): Checksum(1, 2)}) is first
    assert sums.addInPlace(first, {Seen(0, True): Checksum(3, 4), Seen(0, False): Checksum(1, 1)}) == {
        Seen(0, True): Checksum(4, 6),
        Seen(0, False): Checksum(1, 1),
    }
    assert sums.zero(first) == {}
