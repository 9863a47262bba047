"""A run: the next buffered records of one partition, which the application takes one at a time, without the lock of the engine.

Taking a row is one operation that no other thread can divide, so a run can be ended at any time, and it is known which records were taken.
Positions, commits and the buffer follow when the engine settles it. It decides nothing.
"""

from collections import deque
from math import inf
from typing import Final

from ottla.core.client.consumer.record_buffer import NOTHING, Columns
from ottla.core.model import TopicPartition

ROWS_MIN: Final = 32
ROWS_MAX: Final = 4096
MS_MAX: Final = 100.0
"""How long a run lasts at most: whatever is due for another reason than a response waits no longer."""


class RecordRun:
    """Rows `first` to `end` (exclusive) of some columns, until `ends_ms`. `rows`: those that are left; the application takes the first one.

    `polled_ms`: when the application polled last.
    """

    __slots__ = ("_count", "columns", "ends_ms", "partition", "polled_ms", "rows")

    def __init__(self, partition: TopicPartition, columns: Columns, first: int, end: int, *, now_ms: float, ends_ms: float) -> None:
        self.partition = partition
        self.columns = columns
        self.rows = deque(range(first, end))
        self._count = len(self.rows)
        self.polled_ms = now_ms
        self.ends_ms = ends_ms

    def end(self) -> int:
        """Let no more rows be taken: how many were."""
        left = 0
        try:
            # One by one and from the end: the application may take rows meanwhile, and what it gets has no gap.
            while True:
                self.rows.pop()
                left += 1
        except IndexError:
            return self._count - left


NO_RUN: Final = RecordRun(TopicPartition("", -1), NOTHING, 0, 0, now_ms=-inf, ends_ms=-inf)


def next_rows(taken: int) -> int:
    """How many rows the run has that follows one of which so many were taken. Rows that are not taken are made for nothing."""
    return min(max(2 * taken, ROWS_MIN), ROWS_MAX)
