"""Positions at which a query begins and ends, from options: earliest, latest, offsets, timestamps, or a group's commits.

Pure: `offset_reader` resolves positions to offsets. Of several options for one end, Spark's own Kafka
source takes startingTimestamp before startingOffsetsByTimestamp before startingOffsets, and so does this source.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ottla.core.model import TopicPartition
from ottla.spark.options.values import LONG_MAX, OptionError, offsets, timestamps, whole_number

EARLIEST: Final = -2
LATEST: Final = -1
RESETS: Final = ("earliest", "latest", "none")
GROUP: Final = "group"
LISTED_MAX: Final = 50
"""Most partitions that a message names: Spark repeats error messages several times over."""


class Edge(Enum):
    """The begin or end of every partition; the values are Kafka's timestamps for them."""

    EARLIEST = EARLIEST
    LATEST = LATEST


@dataclass(frozen=True, slots=True)
class SpecificOffsets:
    """An offset for each partition of the query; -2 earliest, -1 latest."""

    offsets: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Timestamp:
    """The first record of each partition at or after one time (ms since 1970)."""

    timestamp_ms: int


@dataclass(frozen=True, slots=True)
class Timestamps:
    """The first record at or after a time of its own (ms since 1970) for each partition of the query."""

    timestamps_ms: Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class GroupOffsets:
    """A group's committed offsets; `reset` (one of RESETS) is for partitions without a commit."""

    group_id: str
    reset: str


Position = Edge | SpecificOffsets | Timestamp | Timestamps | GroupOffsets


def position(options: Mapping[str, str], end: str, default: Edge) -> Position:
    """Where a query begins (`end` "starting") or stops ("ending"), from options by their lower-case names. Raises OptionError."""
    by_time, by_times, by_offsets = f"{end}Timestamp", f"{end}OffsetsByTimestamp", f"{end}Offsets"
    if by_time.lower() in options:
        return Timestamp(whole_number(by_time, options[by_time.lower()], EARLIEST, LONG_MAX))
    if by_times.lower() in options:
        return Timestamps(timestamps(by_times, options[by_times.lower()]))
    text = options.get(by_offsets.lower())
    if text is None:
        return default
    word = text.strip().upper()
    return Edge[word] if word in Edge.__members__ else SpecificOffsets(offsets(by_offsets, text))


def starting_position(options: Mapping[str, str], default: Edge, group_id: str | None) -> Position:
    """Where a query begins; `group_id`: whose commits startingOffsets=group means. Raises OptionError."""
    has_time = "startingtimestamp" in options or "startingoffsetsbytimestamp" in options
    is_group = options.get("startingoffsets", "").strip().lower() == GROUP and not has_time
    reset = options.get("kafka.auto.offset.reset")
    if reset is not None and not is_group:
        raise OptionError(
            "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingOffsets' to 'earliest' or 'latest'"
            " to specify where to start; with 'startingOffsets' = 'group' it says where partitions start for which the group has"
            " committed nothing."
        )
    if not is_group:
        return position(options, "starting", default)
    if group_id is None:
        raise OptionError('The option "startingOffsets" is group: say which in the option "group.id".')
    word = "latest" if reset is None else reset.strip().lower()
    if word not in RESETS:
        raise OptionError(f'The option "kafka.auto.offset.reset" must be one of {", ".join(RESETS)}, not {reset!r}.')
    return GroupOffsets(group_id, word)


def check_batch(starting: Position, ending: Position) -> None:
    """A batch query cannot start at the end, nor end at the start, nor end before it starts. Raises OptionError."""
    if starting is Edge.LATEST:
        raise OptionError(
            "starting offset can't be latest for batch queries on Kafka: startingOffsets may be earliest, or an offset for each partition."
        )
    if ending is Edge.EARLIEST:
        raise OptionError(
            "ending offset can't be earliest for batch queries on Kafka: endingOffsets may be latest, or an offset for each partition."
        )
    for limit, word, verb in (
        (starting, LATEST, "startingOffsets for {} can't be latest"),
        (ending, EARLIEST, "ending offset for {} (endingOffsets) can't be earliest"),
    ):
        if isinstance(limit, SpecificOffsets):
            for partition, offset in sorted(limit.offsets.items()):
                if offset == word:
                    raise OptionError(f"{verb.format(named(partition))} for batch queries on Kafka")
    if isinstance(starting, SpecificOffsets) and isinstance(ending, SpecificOffsets):
        _check_order("offset", starting.offsets, ending.offsets)
    if isinstance(starting, Timestamps) and isinstance(ending, Timestamps):
        _check_order("timestamp", starting.timestamps_ms, ending.timestamps_ms)


def _check_order(what: str, starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> None:
    if set(starts) != set(ends):
        raise OptionError(
            "The specified start offset and end offset should have the same topic-partitions."
            f" Topic-partitions for start offset: {listed(starts)}, topic-partitions for end offset: {listed(ends)}."
        )
    for partition, start in sorted(starts.items()):
        end = ends[partition]
        if start > end and start >= 0 and end >= 0:
            raise OptionError(
                f"The specified start {what} {start} is greater than the end {what} {end}"
                f" for topic {partition.topic} partition {partition.partition}."
            )


def named(partition: TopicPartition) -> str:
    """A partition in Kafka's notation, topic-0."""
    return f"{partition.topic}-{partition.partition}"


def listed(partitions: Mapping[TopicPartition, object] | set[TopicPartition] | frozenset[TopicPartition]) -> str:
    """Sorted partitions, separated by commas; at most LISTED_MAX, and how many more there are."""
    first, more = sorted(partitions)[:LISTED_MAX], len(partitions) - LISTED_MAX
    return ", ".join(map(named, first)) + (f" and {more} more" if more > 0 else "")
