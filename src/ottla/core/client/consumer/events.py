"""What happens that the application gets in the place of a record."""

from typing import NamedTuple

from ottla.core.client.consumer.values import OffsetAndMetadata
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition


class PartitionEnd(NamedTuple):
    """The application has all records of a partition: the next one will have this offset."""

    partition: TopicPartition
    offset: int


class PartitionFailure(NamedTuple):
    """A partition cannot be read until the application seeks or assigns again."""

    partition: TopicPartition
    error: ErrorCode
    why: str


class TopicUnavailable(NamedTuple):
    """A topic that the subscription names does not exist, or may not be read. It is looked for, and read as soon as it can be."""

    topic: str
    error: ErrorCode


class LogTruncated(NamedTuple):
    """The leader's log does not hold a position, and auto.offset.reset is none: it cannot be read until the application seeks.

    `diverges`: the first offset at which the log may differ from the one that was read, None where that is not known (KIP-320).
    """

    partition: TopicPartition
    position: OffsetAndMetadata
    diverges: OffsetAndMetadata | None


class PollIntervalExceeded(NamedTuple):
    """The application polled too late, and the member has left the group."""

    interval_ms: int


Event = PartitionEnd | PartitionFailure | TopicUnavailable | LogTruncated | PollIntervalExceeded
