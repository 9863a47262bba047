"""Ranges become tasks of about the same size, and none is lost."""

from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.tasks import ReadTask, group_into_tasks


def _ranges(*sizes: int) -> list[OffsetRange]:
    return [OffsetRange("t", partition, 0, size) for partition, size in enumerate(sizes)]


def test_one_task_a_range_without_a_limit_or_within_it():
    ranges = _ranges(3, 1)
    assert group_into_tasks(ranges, None) == [ReadTask((ranges[0],)), ReadTask((ranges[1],))]
    assert group_into_tasks(ranges, 2) == group_into_tasks(ranges, None)


def test_large_ranges_are_spread_and_small_ones_fill_up():
    tasks = group_into_tasks(_ranges(10, 1, 9, 2, 1, 1), 2)
    assert [sum(each.end - each.start for each in task.ranges) for task in tasks] == [12, 12]
    assert sorted(each for task in tasks for each in task.ranges) == _ranges(10, 1, 9, 2, 1, 1)
