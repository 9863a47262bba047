"""What is read: ranges of offsets, the tasks that read them, and the offsets of a stream. Pure.

Requested offsets are limited to those that the brokers hold. Where they do not hold one, records are missing, and a message says which;
`report` ends the query or warns, by failOnDataLoss. Messages and cases are those of Spark's own Kafka source
(getOffsetRangesFromResolvedOffsets); topic ids are an addition. Large ranges are split: maxRecordsPerPartition, then minPartitions, as by
Spark's KafkaOffsetRangeCalculator (SPARK-36576: small ranges do not count where the large ones are divided; SPARK-49259). Tasks are the
contract between planning and reading.

The offsets of a stream in Spark's checkpoint are JSON as of Spark's own Kafka source, with the topics' ids:
`{"topic":{"0":23,"1":5},"#topic_ids":{"topic":"<22 letters>"}}`, the next offset to read. No topic can be called "#topic_ids". Offsets
without ids, as the JVM connector writes them, are supported; then re-created topics are not detected.
"""

import logging
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pyspark.sql.datasource import InputPartition

from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import SourceOptions, listed, named
from ottla.spark.options.values import OptionError


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
    rest, wanted = total - sum(map(_size, kept)), partitions_min - len(kept)
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


TOPIC_IDS: Final = "#topic_ids"
MEMBER: Final = "#member"
"""In offsets of ottla.group.mode=member: see `member_offsets`."""
_SHOWN_MAX: Final = 500


class CheckpointError(Exception):
    """Offsets in a checkpoint that neither this source nor Spark's own wrote."""


class Offsets(NamedTuple):
    """The next offset of each partition, and the ids (Kafka's base64) of the topics as far as they are known."""

    by_partition: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, str]


def to_json(offsets: Offsets) -> dict[str, Any]:
    """The same text for the same offsets: Spark compares texts to detect new records."""
    value: dict[str, Any] = {}
    for (topic, partition), offset in sorted(offsets.by_partition.items()):
        value.setdefault(topic, {})[str(partition)] = offset
    value[TOPIC_IDS] = {topic: offsets.topic_ids[topic] for topic in value if offsets.topic_ids.get(topic)}
    return value


def from_json(value: Mapping[str, Any]) -> Offsets:
    """Offsets that `to_json` or the JVM connector wrote. Raises CheckpointError."""
    if MEMBER in value:
        raise CheckpointError(
            'this checkpoint is one of a query with "ottla.group.mode" = "member", which has the offsets of the partitions that the query'
            " owned, and not of the others: set that option, or give the query a new checkpointLocation and startingOffsets=group"
        )
    found: dict[TopicPartition, int] = {}
    try:
        ids = dict(value.get(TOPIC_IDS, {}))
        for topic, offsets in value.items():
            if topic != TOPIC_IDS:
                for partition, offset in offsets.items():
                    found[TopicPartition(topic, int(partition))] = _whole(offset)
    except (ValueError, TypeError, AttributeError) as error:
        raise CheckpointError(
            f"these are no offsets of Kafka topics: {str(value)[:_SHOWN_MAX]} ({error}). Is the checkpoint one of another query?"
        ) from error
    return Offsets(found, ids)


def recreated(before: Offsets, now: Mapping[str, str]) -> list[str]:
    """Topics with another id now than before, sorted; a topic whose id is not known both times counts as the same."""
    return sorted(topic for topic, topic_id in before.topic_ids.items() if (now.get(topic) or topic_id) != topic_id)


def in_checkpoint(offsets: Offsets) -> Offsets:
    """Offsets as they come back from a checkpoint: without ids of topics that have no partitions."""
    return from_json(to_json(offsets))


def _whole(offset: object) -> int:
    if type(offset) is not int or not 0 <= offset < 2**63:
        raise ValueError(f"{offset!r} is no offset")
    return offset


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
