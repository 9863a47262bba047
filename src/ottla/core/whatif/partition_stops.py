"""Adds up how long partitions are not read: during rebalances, and while their owner is silent or gone and not yet removed.

In milliseconds of one partition each: ten partitions that stop for 2 s are 20,000.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

from ottla.core.model import TopicPartition


def partitions_of(owned: Mapping[str, Sequence[int]]) -> frozenset[TopicPartition]:
    """The partitions of an assignment by topic."""
    return frozenset(TopicPartition(topic, number) for topic, numbers in owned.items() for number in numbers)


class PartitionStops:
    """The running sums; `advance` to the present before each change."""

    def __init__(self) -> None:
        self.rebalancing_ms = 0
        """Partitions that no member owned."""
        self.waiting_ms = 0
        """Partitions whose owner did not read."""
        self._now_ms = 0
        self._known: set[TopicPartition] = set()
        self._readers: Counter[TopicPartition] = Counter()
        self._absent: Counter[TopicPartition] = Counter()
        self._read_count = self._absent_count = 0

    def start(self, now_ms: int) -> None:
        """Count from now on."""
        self._now_ms = now_ms
        self.rebalancing_ms = self.waiting_ms = 0

    def advance(self, now_ms: int, *, is_running: bool) -> None:
        """Add the time since the last call; without running members (`is_running`) nothing is expected to be read."""
        elapsed_ms, self._now_ms = now_ms - self._now_ms, now_ms
        if is_running:
            self.waiting_ms += elapsed_ms * self._absent_count
            self.rebalancing_ms += elapsed_ms * (len(self._known) - self._read_count - self._absent_count)

    def replace(self, before: frozenset[TopicPartition], after: frozenset[TopicPartition], *, read_before: bool, read_after: bool) -> None:
        """A member owned `before` and now owns `after`; whether it read them, and reads them."""
        if read_before == read_after:
            before, after = before - after, after - before
        for partition in before:
            self._change(partition, -1, reads=read_before)
        for partition in after:
            self._known.add(partition)
            self._change(partition, 1, reads=read_after)

    def _change(self, partition: TopicPartition, by: int, *, reads: bool) -> None:
        was_read, was_absent = self._state(partition)
        (self._readers if reads else self._absent)[partition] += by
        is_read, is_absent = self._state(partition)
        self._read_count += is_read - was_read
        self._absent_count += is_absent - was_absent

    def _state(self, partition: TopicPartition) -> tuple[bool, bool]:
        is_read = self._readers[partition] > 0
        return is_read, not is_read and self._absent[partition] > 0
