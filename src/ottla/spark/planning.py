"""Which offsets of which partitions a query reads: the options against what the brokers hold. Pure: no broker is asked here.

Where the two do not fit, records are missing: an error by default, and with failOnDataLoss=false a range that is cut to what is there and a
sentence about it.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.consumer.cluster import EARLIEST, LATEST
from ottla.core.model import TopicPartition
from ottla.spark.options import Offsets, OptionError


class DataLossError(Exception):
    """Records that were asked for are not there (any more)."""


class OffsetRange(NamedTuple):
    """The records of one partition with start <= offset < end."""

    partition: TopicPartition
    start: int
    end: int


class Planned(NamedTuple):
    """The ranges that are not empty, and what was lost without failing."""

    ranges: list[OffsetRange]
    warnings: list[str]


def plan_ranges(
    starting: Offsets,
    ending: Offsets,
    earliest: Mapping[TopicPartition, int],
    latest: Mapping[TopicPartition, int],
    *,
    fail_on_data_loss: bool,
) -> Planned:
    """One range for each partition with records to read. Raises OptionError or DataLossError."""
    _check_partitions("startingOffsets", starting, earliest)
    _check_partitions("endingOffsets", ending, earliest)
    ranges: list[OffsetRange] = []
    warnings: list[str] = []
    for partition in sorted(earliest):
        low, high = earliest[partition], latest[partition]
        start, end = (_resolve(offsets, partition, low, high) for offsets in (starting, ending))
        for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
            if not low <= offset <= high:
                warnings.append(
                    f"{name} asks for offset {offset} of {partition.topic}-{partition.partition}, "
                    f"which holds {low} to {high}: records may have been deleted, or the topic made anew"
                )
        start, end = max(start, low), min(end, high)
        if start < end:
            ranges.append(OffsetRange(partition, start, end))
    if warnings and fail_on_data_loss:
        raise DataLossError(f'{warnings[0]}. To read what is there, set the option "failOnDataLoss" to false.')
    return Planned(ranges, warnings)


def _check_partitions(name: str, offsets: Offsets, partitions: Mapping[TopicPartition, int]) -> None:
    if isinstance(offsets, int) or set(offsets) == set(partitions):
        return
    specified, assigned = (", ".join(f"{topic}-{partition}" for topic, partition in sorted(names)) for names in (offsets, partitions))
    raise OptionError(
        f"If {name} contains specific offsets, you must specify all TopicPartitions. Use -1 for latest, -2 for earliest. "
        f"Specified: {specified}. Assigned: {assigned}."
    )


def _resolve(offsets: Offsets, partition: TopicPartition, low: int, high: int) -> int:
    offset = offsets if isinstance(offsets, int) else offsets[partition]
    return {EARLIEST: low, LATEST: high}.get(offset, offset)
