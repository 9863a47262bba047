"""What a query reads, as ranges of offsets, and how ranges become Spark's tasks: the contract between planning and reading.

Values only: nobody is asked here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql.datasource import InputPartition


class OffsetRange(NamedTuple):
    """The records of one partition with start <= offset < end. `topic_id` is Kafka's base64 text, empty where it is not known."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""


@dataclass
class ReadTask(InputPartition):
    """One Spark task: one range or several."""

    ranges: tuple[OffsetRange, ...]


def group_into_tasks(ranges: Sequence[OffsetRange], tasks_max: int | None) -> list[ReadTask]:
    """At most `tasks_max` tasks of about the same number of offsets each; None: one task a range.

    The largest ranges are dealt out first, each to the task that has least to do.
    """
    if tasks_max is None or len(ranges) <= tasks_max:
        return [ReadTask((each,)) for each in ranges]
    dealt: list[list[OffsetRange]] = [[] for _ in range(tasks_max)]
    offsets = [0] * tasks_max
    for each in sorted(ranges, key=lambda each: each.start - each.end):
        least = offsets.index(min(offsets))
        dealt[least].append(each)
        offsets[least] += each.end - each.start
    return [ReadTask(tuple(sorted(task))) for task in dealt]
