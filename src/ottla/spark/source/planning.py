"""Planned ranges of a query: the requested offsets, limited to those that the brokers hold. Pure.

Where the brokers do not hold a requested offset, records are missing, and a message says which; `report` ends the query or warns, by
failOnDataLoss. Messages and cases are those of Spark's own Kafka source (getOffsetRangesFromResolvedOffsets); topic ids are an addition.
"""

import logging
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ottla.core.model import TopicPartition
from ottla.spark.options.positions import listed, named
from ottla.spark.options.values import OptionError
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.stream_offsets import Offsets, recreated

log = logging.getLogger(__name__)


class DataLossError(Exception):
    """Requested records do not exist (any more)."""


class Planned(NamedTuple):
    """The ranges, none of them empty, and a message for each loss."""

    ranges: list[OffsetRange]
    losses: list[str]


def report(losses: Iterable[str], *, fail_on_data_loss: bool) -> None:
    """Raise DataLossError with the first loss, or log a warning for each."""
    for loss in losses:
        if fail_on_data_loss:
            raise DataLossError(
                f"{loss}. Some data may have been lost because they are not available in Kafka any more: aged out, or the topic deleted."
                ' To read what is there and be warned instead, set the option "failOnDataLoss" to false.'
            )
        log.warning("%s. Some data may have been lost; the option failOnDataLoss is false, and the query continues.", loss)


def plan_batch(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], earliest: Offsets, latest: Mapping[TopicPartition, int]
) -> Planned:
    """One range for each partition with records to read, limited to those that exist. Raises OptionError for an end before its start."""
    ranges, losses = [], []
    for partition in sorted(starts):
        start, end = starts[partition], ends[partition]
        low, high = earliest.by_partition[partition], latest[partition]
        if start > end:
            raise OptionError(
                f"The resolved start offset {start} is greater than the resolved end offset {end} for topic {partition.topic}"
                f" partition {partition.partition}: the start is set behind the end, or the topic was deleted and re-created."
            )
        for name, offset in (("startingOffsets", start), ("endingOffsets", end)):
            if not low <= offset <= high:
                losses.append(f"{name} asks for offset {offset} of {named(partition)}, which holds {low} to {high}")
        start, end = max(start, low), min(end, high)
        if start < end:
            ranges.append(OffsetRange(*partition, start, end, earliest.topic_ids.get(partition.topic, "")))
    return Planned(ranges, losses)


def added(start: Offsets, end: Offsets) -> list[TopicPartition]:
    """Partitions that begin at their earliest offset: new ones, and those of topics that were re-created."""
    again = set(recreated(start, end.topic_ids))
    return sorted(partition for partition in end.by_partition if partition not in start.by_partition or partition.topic in again)


def recreation(topic: str, before: str, now: str) -> str:
    """The message for a topic that was re-created."""
    return f"Topic {topic} was deleted and re-created: its id was {before}, now it is {now}, and what the old one still held is gone"


def plan_stream(start: Offsets, end: Offsets, earliest: Mapping[TopicPartition, int]) -> Planned:
    """The ranges from `start` to `end`; `earliest` are the first offsets of the partitions that `added` names, as far as they exist."""
    again = recreated(start, end.topic_ids)
    losses = [recreation(topic, start.topic_ids[topic], end.topic_ids[topic]) for topic in again]
    new = {partition for partition in added(start, end) if partition.topic not in again}
    unknown = {partition for partition in new if partition not in earliest}
    if unknown:
        losses.append(f"Cannot find initial offsets for partitions {listed(unknown)}. They may have been deleted")
    for partition in sorted(new - unknown):
        if earliest[partition] != 0:
            losses.append(f"Added partition {named(partition)} starts from {earliest[partition]} instead of 0")
    gone = {partition for partition in start.by_partition if partition not in end.by_partition and partition.topic not in again}
    if gone:
        losses.append(f"Partitions {listed(gone)} have been deleted")
    ranges = []
    for partition, until in sorted(end.by_partition.items()):
        begin = earliest.get(partition) if partition in new or partition.topic in again else start.by_partition[partition]
        if begin is None:
            continue
        if until < begin:
            losses.append(f"Partition {named(partition)} offset was changed from {begin} to {until}")
        elif until > begin:
            ranges.append(OffsetRange(*partition, begin, until, end.topic_ids.get(partition.topic, "")))
    return Planned(ranges, losses)


def among(offsets: Offsets, others: Offsets) -> Offsets:
    """The `offsets` of partitions that are in `others`, too."""
    return Offsets(
        {partition: offset for partition, offset in offsets.by_partition.items() if partition in others.by_partition}, offsets.topic_ids
    )


def plan_first_batch(start: Offsets, end: Offsets) -> Planned:
    """The first batch of a query that began at the latest offsets, and was interrupted.

    `end` was that beginning; `start` are the latest offsets now. The batch is empty, as before: later records are for the next one.
    """
    return Planned(plan_stream(start, Offsets(among(end, start).by_partition, {}), {}).ranges, [])
