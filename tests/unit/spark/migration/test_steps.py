"""Tasks of a batch; the Spark jobs themselves run in tests/spark/test_migrate.py."""

from ottla.spark.migration.steps import tasks_of
from ottla.spark.migration.values import Extent
from ottla.spark.source.ranges import OffsetRange


def test_a_partition_is_read_by_one_task() -> None:
    tasks = tasks_of("wide", "id", {2: Extent(0, 5), 0: Extent(3, 100), 1: Extent(0, 5)}, 2)
    assert [task.ranges for task in tasks] == [
        (OffsetRange("wide", 0, 3, 100, "id"),),
        (OffsetRange("wide", 1, 0, 5, "id"), OffsetRange("wide", 2, 0, 5, "id")),
    ]
