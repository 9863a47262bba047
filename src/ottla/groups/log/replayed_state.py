"""The durable state of a coordinator: committed offsets and group metadata, as the records of the log replay to it.

Two of these are equal if the same records were applied, however often the broker restarted. Present members, parked requests and
timers are soft state, which a restart loses; they are in the groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.groups.log.committed_offsets import CommittedOffsets
from ottla.groups.log.records import GroupRecord, OffsetRecord
from ottla.protocol.coordinator_records import GroupMetadataValue, OffsetValue

OffsetsByTopic = dict[str, dict[int, OffsetValue]]


@dataclass(slots=True)
class ReplayedState:
    """Group metadata by group id, and committed offsets by group id, topic and partition. Only `apply` and `apply_all` change it."""

    group_metadata: dict[str, GroupMetadataValue] = field(default_factory=dict)
    offsets: dict[str, OffsetsByTopic] = field(default_factory=dict)

    def apply(self, record: GroupRecord) -> None:
        """Apply one record; a tombstone for an unknown key changes nothing."""
        if isinstance(record, OffsetRecord):
            if record.value is None:
                self._remove_offset(record)
            else:
                by_topic = self.offsets.setdefault(record.group_id, {})
                by_topic.setdefault(record.topic, {})[record.partition] = record.value
        elif record.value is None:
            self.group_metadata.pop(record.group_id, None)
        else:
            self.group_metadata[record.group_id] = record.value

    def apply_all(self, records: Sequence[GroupRecord]) -> None:
        """Apply records in order."""
        if not isinstance(records, CommittedOffsets):
            for record in records:
                self.apply(record)
            return
        by_topic = self.offsets.setdefault(records.group_id, {})
        for topic in records.topics:
            by_topic.setdefault(topic.topic, {}).update(zip(topic.partitions, records.values(topic), strict=True))

    def clear(self) -> None:
        """Remove everything, when another broker takes the partition."""
        self.group_metadata.clear()
        self.offsets.clear()

    def committed(self, group_id: str, topic: str, partition: int) -> OffsetValue | None:
        """The committed offset, None if there is none."""
        return self.offsets.get(group_id, {}).get(topic, {}).get(partition)

    def _remove_offset(self, record: OffsetRecord) -> None:
        by_topic = self.offsets.get(record.group_id, {})
        by_partition = by_topic.get(record.topic, {})
        by_partition.pop(record.partition, None)
        # Empty containers are removed, so that equal contents compare equal.
        if not by_partition:
            by_topic.pop(record.topic, None)
        if not by_topic:
            self.offsets.pop(record.group_id, None)
