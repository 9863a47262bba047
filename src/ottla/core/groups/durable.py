"""What the log knows: committed offsets and the registrations of groups. `apply` is the only way in (law 1).

Two of these are equal when the same records were applied, however often the broker restarted in between. Who is a member right now,
who waits and what is due is not here: that is soft state, and a restart may forget it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.core.groups.committed import CommittedOffsets
from ottla.core.groups.records import GroupMetadataValue, GroupRecord, OffsetRecord, OffsetValue

OffsetsByTopic = dict[str, dict[int, OffsetValue]]


@dataclass(slots=True)
class DurableState:
    """Registrations by group id, and committed offsets by group id, topic and partition."""

    registrations: dict[str, GroupMetadataValue] = field(default_factory=dict)
    offsets: dict[str, OffsetsByTopic] = field(default_factory=dict)

    def apply(self, record: GroupRecord) -> None:
        """Let one record take effect; tombstones of what is not there do nothing."""
        if isinstance(record, OffsetRecord):
            if record.value is None:
                self._forget_offset(record)
            else:
                by_topic = self.offsets.setdefault(record.group_id, {})
                by_topic.setdefault(record.topic, {})[record.partition] = record.value
        elif record.value is None:
            self.registrations.pop(record.group_id, None)
        else:
            self.registrations[record.group_id] = record.value

    def apply_all(self, records: Sequence[GroupRecord]) -> None:
        """Let records take effect, one after the other."""
        if not isinstance(records, CommittedOffsets):
            for record in records:
                self.apply(record)
            return
        by_topic = self.offsets.setdefault(records.group_id, {})
        for topic in records.topics:
            by_topic.setdefault(topic.topic, {}).update(zip(topic.partitions, records.values(topic), strict=True))

    def committed(self, group_id: str, topic: str, partition: int) -> OffsetValue | None:
        """The committed offset, None if there is none."""
        return self.offsets.get(group_id, {}).get(topic, {}).get(partition)

    def _forget_offset(self, record: OffsetRecord) -> None:
        by_topic = self.offsets.get(record.group_id, {})
        by_partition = by_topic.get(record.topic, {})
        by_partition.pop(record.partition, None)
        # Nothing empty stays behind, so that equal contents compare equal.
        if not by_partition:
            by_topic.pop(record.topic, None)
        if not by_topic:
            self.offsets.pop(record.group_id, None)
