"""Values of aiokafka's interface. Partitions are `ottla.core.model.TopicPartition`, a named tuple like aiokafka's, which it is equal to."""

from typing import NamedTuple


class OffsetAndMetadata(NamedTuple):
    """An offset to commit: where reading continues."""

    offset: int
    metadata: str = ""


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time: its offset, and its own time in milliseconds since 1970."""

    offset: int
    timestamp: int
