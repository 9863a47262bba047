"""How much of what there is goes into the next micro-batch: maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay. Pure.

The arithmetic is that of Spark's own Kafka source (KafkaMicroBatchStream), floating point included: the same limits make the same batches.
Times are given, never read.
"""

import math
from collections.abc import Mapping

from ottla.core.model import TopicPartition

ByPartition = Mapping[TopicPartition, int]


def share(limit: int, starts: ByPartition, ends: ByPartition) -> dict[TopicPartition, int]:
    """Ends with about `limit` offsets in all before them, in proportion to what each partition has.

    A partition with little still gets one, so that it does not starve. One without a start, or behind its start, keeps its end.
    """
    sizes = {partition: end - starts[partition] for partition, end in ends.items() if end > starts.get(partition, end)}
    total = sum(sizes.values())
    return {
        partition: min(end, starts[partition] + _portion(limit * (sizes[partition] / total))) if partition in sizes else end
        for partition, end in ends.items()
    }


def _portion(exact: float) -> int:
    return math.ceil(exact) if exact < 1 else math.floor(exact)


class BatchGate:
    """Holds a batch back until there are `offsets_min` new offsets, or `delay_ms_max` have passed since the last one.

    The first batch of a query is never held back. Times are ms since any moment that is long ago.
    """

    def __init__(self, offsets_min: int, delay_ms_max: int) -> None:
        self._offsets_min = offsets_min
        self._delay_ms_max = delay_ms_max
        self._opened_ms: int | None = None

    def opens(self, starts: ByPartition, ends: ByPartition, now_ms: int) -> bool:
        """Whether a batch goes now; then the waiting begins anew. A partition without a start counts from 0."""
        is_late = self._opened_ms is None or now_ms - self._opened_ms >= self._delay_ms_max
        if is_late or sum(end - starts.get(partition, 0) for partition, end in ends.items()) >= self._offsets_min:
            self._opened_ms = now_ms
            return True
        return False
