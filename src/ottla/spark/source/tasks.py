"""Spark's tasks of a query: ranges of offsets, split or grouped as the options say. Pure.

Tasks are the contract between planning and reading.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql.datasource import InputPartition

from ottla.spark.options.source_options import SourceOptions
from ottla.spark.source.ranges import OffsetRange, split


@dataclass
class ReadTask(InputPartition):
    """One Spark task: one range or several."""

    ranges: tuple[OffsetRange, ...]


def group_into_tasks(ranges: Sequence[OffsetRange], tasks_max: int | None) -> list[ReadTask]:
    """At most `tasks_max` tasks of about the same number of offsets each; None: one task per range.

    The largest ranges are assigned first, each to the task with the fewest offsets.
    """
    if tasks_max is None or len(ranges) <= tasks_max:
        return [ReadTask((each,)) for each in ranges]
    assigned: list[list[OffsetRange]] = [[] for _ in range(tasks_max)]
    offsets = [0] * tasks_max
    for each in sorted(ranges, key=lambda each: each.start - each.end):
        least = offsets.index(min(offsets))
        assigned[least].append(each)
        offsets[least] += each.end - each.start
    return [ReadTask(tuple(sorted(task))) for task in assigned]


def into_tasks(ranges: list[OffsetRange], options: SourceOptions, tasks_max: int | None) -> list[ReadTask]:
    """Tasks for ranges: one for each part where options split them; otherwise at most `tasks_max`, or the option `maxTasks`."""
    divided = split(ranges, records_max=options.task_records_max, partitions_min=options.partitions_min)
    if options.tasks_max is not None:
        return group_into_tasks(divided, options.tasks_max)
    wants_more = options.task_records_max is not None or options.partitions_min is not None
    return group_into_tasks(divided, None if wants_more else tasks_max)
