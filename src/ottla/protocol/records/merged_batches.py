"""Copies of one log merged into one: every offset once, from the copy that holds most of it.

Copies are the replicas of several brokers, an archive, and the cluster's own log, which compaction may have thinned out.
"""

from collections.abc import Iterable, Iterator
from heapq import merge
from typing import NamedTuple

from ottla.protocol.records.batch import BatchHeader


class Batch(NamedTuple):
    """A whole batch, header and all, as bytes, and its header."""

    header: BatchHeader
    data: bytes | memoryview


def merge_batches(copies: Iterable[Iterable[Batch]]) -> Iterator[Batch]:
    """The batches of all copies in the order of their offsets; of several of one offset the one with most records.

    A batch that begins below the end of the one before it is left out: it holds nothing new, as batches keep their bounds for good.
    """
    next_offset = 0
    best: Batch | None = None
    for batch in merge(*copies, key=lambda each: each.header.base_offset):
        if best is not None and batch.header.base_offset > best.header.base_offset:
            yield best
            next_offset = best.header.next_offset
            best = None
        if batch.header.base_offset < next_offset:
            continue
        if best is None or batch.header.record_count > best.header.record_count:
            best = batch
    if best is not None:
        yield best
