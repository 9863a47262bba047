"""Offsets that were committed within transactions which have not ended (TxnOffsetCommit, 28): soft state beside the committed ones.

They become committed offsets when their transaction commits, unless a later record of the log has taken their place: an offset that was
committed without a transaction, or a tombstone. Source: KIP-98, KIP-447, Kafka's `OffsetMetadataManager`.
"""

from collections.abc import Iterable, Iterator

from ottla.groups.log.records import OffsetRecord
from ottla.protocol.coordinator_records import OffsetValue

_Key = tuple[str, str, int]
"""Group, topic and partition."""


class PendingOffsets:
    """By producer id. An offset whose place was taken stays pending, without a value, until its transaction ends."""

    __slots__ = ("_by_producer", "_counts")

    def __init__(self) -> None:
        self._by_producer: dict[int, dict[_Key, OffsetValue | None]] = {}
        self._counts: dict[_Key, int] = {}
        """How many producers have a pending offset."""

    def __bool__(self) -> bool:
        return bool(self._by_producer)

    def add(self, producer_id: int, records: Iterable[OffsetRecord]) -> None:
        """Offsets of a transaction: a later one replaces an earlier one of the same transaction."""
        offsets = self._by_producer.setdefault(producer_id, {})
        for record in records:
            key = record.group_id, record.topic, record.partition
            if key not in offsets:
                self._counts[key] = self._counts.get(key, 0) + 1
            offsets[key] = record.value

    def end(self, producer_id: int) -> Iterator[OffsetRecord]:
        """A producer's transaction ended: the offsets that take effect if it was committed."""
        for (group_id, topic, partition), value in self._by_producer.pop(producer_id, {}).items():
            self._uncount((group_id, topic, partition))
            if value is not None:
                yield OffsetRecord(group_id=group_id, topic=topic, partition=partition, value=value)

    def replace(self, group_id: str, topic: str, partition: int) -> None:
        """An offset was committed without a transaction: it lies behind the pending ones in the log, and so takes their place."""
        key = group_id, topic, partition
        if key in self._counts:
            for offsets in self._by_producer.values():
                if key in offsets:
                    offsets[key] = None

    def remove(self, group_id: str, topic: str, partition: int) -> None:
        """The offset was deleted: nothing of it is pending any more."""
        key = group_id, topic, partition
        if self._counts.pop(key, 0):
            for producer_id, offsets in list(self._by_producer.items()):
                if offsets.pop(key, self) is not self and not offsets:
                    del self._by_producer[producer_id]

    def has(self, group_id: str, topic: str, partition: int) -> bool:
        """Whether a transaction that has not ended committed an offset of the partition."""
        return (group_id, topic, partition) in self._counts

    def all(self) -> list[tuple[str, str, int]]:
        """Group, topic and partition of every pending offset."""
        return list(self._counts)

    def of_group(self, group_id: str) -> list[tuple[str, int]]:
        """The partitions with pending offsets of a group."""
        return [(topic, partition) for group, topic, partition in self._counts if group == group_id]

    def clear(self) -> None:
        """Another broker takes the partition."""
        self._by_producer.clear()
        self._counts.clear()

    def _uncount(self, key: _Key) -> None:
        self._counts[key] -= 1
        if not self._counts[key]:
            del self._counts[key]
