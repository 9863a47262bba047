"""Ranges of offsets that a query reads, and how large ones are split: maxRecordsPerPartition, then minPartitions. Pure.

Source: Spark's KafkaOffsetRangeCalculator (SPARK-36576: small ranges do not count where the large ones are divided; SPARK-49259).
"""

import math
from collections.abc import Sequence
from typing import NamedTuple


class OffsetRange(NamedTuple):
    """The records of one partition with start <= offset < end. `topic_id` is Kafka's base64 text, empty where it is not known."""

    topic: str
    partition: int
    start: int
    end: int
    topic_id: str = ""


def split(ranges: Sequence[OffsetRange], *, records_max: int | None = None, partitions_min: int | None = None) -> list[OffsetRange]:
    """Ranges of at most `records_max` offsets each, and about `partitions_min` of them; empty ones are left out."""
    found = [each for each in ranges if each.end > each.start]
    if records_max is not None:
        found = [part for each in found for part in _divide(each, math.ceil(_size(each) / records_max))]
    if partitions_min is None or len(found) >= partitions_min:
        return found
    total = sum(map(_size, found))
    whole = {each[:2] for each in found if _parts(_size(each), total, partitions_min) == 1}
    kept = [each for each in found if _parts(_size(each), total, partitions_min) == 1]
    rest, wanted = total - sum(map(_size, kept)), max(partitions_min - len(kept), 1)
    return [part for each in found for part in _divide(each, 1 if each[:2] in whole else _parts(_size(each), rest, wanted))]


def _size(each: OffsetRange) -> int:
    return each.end - each.start


def _parts(size: int, total: int, wanted: int) -> int:
    return max(math.floor(size / total * wanted + 0.5), 1)


def _divide(each: OffsetRange, parts: int) -> list[OffsetRange]:
    """As many ranges of about the same size; the last ones take what does not divide evenly."""
    divided, start = [], each.start
    for part in range(parts):
        end = start + (each.end - start) // (parts - part)
        if end > start:
            divided.append(each._replace(start=start, end=end))
        start = end
    return divided
