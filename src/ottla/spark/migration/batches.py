"""Which offsets of the source make the next batch. Pure.

A batch has a bounded number of offsets. Records that more groups have read come first; among those that as many groups have read, all
source partitions advance by the same share, so that they advance together in time.
"""

from collections.abc import Iterator, Mapping, Sequence

from ottla.spark.migration.values import Extent

Batch = dict[int, Extent]
"""The offsets of a batch by source partition; none is empty."""


def plan_batches(left: Mapping[int, Extent], positions: Mapping[int, Sequence[int]], records_max: int) -> Iterator[Batch]:
    """Batches of about `records_max` offsets that make up `left`, in their order.

    `positions`: the committed offsets of the groups in each source partition, sorted. Each source partition has its offsets in rising
    order.
    """
    batch: Batch = {}
    for phase in _phases(left, positions):
        total, done = _offsets(phase), 0
        while done < total:
            step = min(records_max - _offsets(batch), total - done)
            for partition, extent in phase.items():
                start, end = (extent.start + extent.size * share // total for share in (done, done + step))
                if end > start:
                    batch[partition] = Extent(batch[partition].start if partition in batch else start, end)
            done += step
            if _offsets(batch) >= records_max - len(left):
                yield batch
                batch = {}
    if batch:
        yield batch


def _phases(left: Mapping[int, Extent], positions: Mapping[int, Sequence[int]]) -> Iterator[dict[int, Extent]]:
    """The parts of `left` that equally many groups have read: all groups, all but one, and so on."""
    count = max((len(each) for each in positions.values()), default=0)
    cuts = {partition: [extent.start, *positions.get(partition, ()), extent.end] for partition, extent in left.items()}
    for phase in range(count + 1):
        parts = {}
        for partition, extent in left.items():
            start, end = (min(max(cut, extent.start), extent.end) for cut in _bounds(cuts[partition], phase))
            if end > start:
                parts[partition] = Extent(start, end)
        if parts:
            yield parts


def _bounds(cuts: Sequence[int], phase: int) -> tuple[int, int]:
    return (cuts[phase], cuts[phase + 1]) if phase + 1 < len(cuts) else (cuts[-1], cuts[-1])


def _offsets(extents: Mapping[int, Extent]) -> int:
    return sum(each.size for each in extents.values())
