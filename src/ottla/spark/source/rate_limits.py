"""Limits of a micro-batch: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay. Pure.

The arithmetic is that of Spark's own Kafka source (KafkaMicroBatchStream), floating point included: the same limits make the same batches.
Time is an argument.
"""

import math
from collections.abc import Mapping

from ottla.core.model import TopicPartition

ByPartition = Mapping[TopicPartition, int]


def share(limit: int, starts: ByPartition, ends: ByPartition) -> dict[TopicPartition, int]:
    """Ends of a micro-batch with about `limit` offsets, in proportion to the backlog of each partition.

    A small backlog still gets one offset, so that the partition does not starve. A partition without a start, or whose end lies before its
    start, keeps its end.
    """
    sizes = {partition: end - starts[partition] for partition, end in ends.items() if end > starts.get(partition, end)}
    total = sum(sizes.values())
    return {
        partition: min(end, starts[partition] + _portion(limit * (sizes[partition] / total))) if partition in sizes else end
        for partition, end in ends.items()
    }


def _portion(exact: float) -> int:
    return math.ceil(exact) if exact < 1 else math.floor(exact)


class BatchThreshold:
    """Holds a batch back until there are `offsets_min` new offsets, or `delay_ms_max` have passed since the last one.

    The first batch of a query is never held back. Times are in ms of a monotonic clock.
    """

    def __init__(self, offsets_min: int, delay_ms_max: int) -> None:
        self._offsets_min = offsets_min
        self._delay_ms_max = delay_ms_max
        self._admitted_ms: int | None = None

    def admit(self, starts: ByPartition, ends: ByPartition, now_ms: int) -> bool:
        """Whether a batch starts now; the delay restarts with it. A partition without a start counts from 0."""
        is_late = self._admitted_ms is None or now_ms - self._admitted_ms >= self._delay_ms_max
        if is_late or sum(end - starts.get(partition, 0) for partition, end in ends.items()) >= self._offsets_min:
            self._admitted_ms = now_ms
            return True
        return False
