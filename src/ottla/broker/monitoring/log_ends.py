"""The log end offsets that one sample of the groups compares committed offsets with."""

from typing import Final

from ottla.broker.partitions.partitions import Partitions
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

OPENINGS_MAX: Final = 16
"""Logs that one sample opens: offsets are committed for them, and they have not been used since the start."""

NOT_OPEN: Final = -1
"""The end of a log that is not open."""


class LogEnds:
    """Log end offsets by topic and partition, each looked up once in a sample."""

    def __init__(self, partitions: Partitions) -> None:
        self._partitions = partitions
        self._openings_left = OPENINGS_MAX
        self._ends: dict[str, dict[int, int]] = {}

    def of_topic(self, topic: str) -> dict[int, int]:
        """The known ends of a topic's logs; `look_up` adds to them."""
        return self._ends.setdefault(topic, {})

    def look_up(self, topic: str, partition: int) -> None:
        """Add the end of a partition's log; NOT_OPEN where the partition does not exist or is not open."""
        found = self._partitions.in_use(TopicPartition(topic, partition))
        if found is None and self._openings_left > 0:
            self._openings_left -= 1
            try:
                found = self._partitions.by_name(topic, partition)
            except StorageError:
                found = None  # it is offline: the health report says so
        self._ends[topic][partition] = NOT_OPEN if found is None else found.log.log_end_offset
