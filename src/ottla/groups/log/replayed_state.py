"""The durable state of a coordinator: committed offsets and group metadata, to which the records of the log replay, singly or in bulk.

Two of these are equal if the same records were applied, however often the broker restarted. Present members, parked requests and timers
are soft state, which a restart loses; they are in the groups.

The reducer keeps of each key only the last record, and gives the state of `ReplayedState.apply`. A log is reduced piece by piece. Two
backends implement the protocol with equal results: the reference one here and the compiled one in `arrow/loading.py`. The caller decides
which batches count (of transactions, only committed ones).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from ottla.coordinator.loading import Loaded, RecordReducer
from ottla.groups.consumer.group_state import ConsumerGroupState
from ottla.groups.log.committed_offsets import CommittedOffsets
from ottla.groups.log.records import ConsumerGroupRecord, GroupRecord, OffsetRecord, decode, decode_offset_value
from ottla.protocol.coordinator_records import GroupMetadataValue, OffsetValue

OffsetsByTopic = dict[str, dict[int, OffsetValue]]


@dataclass(slots=True)
class ReplayedState:
    """Classic groups' metadata and consumer groups by group id, and committed offsets by group id, topic and partition.

    Only `apply` and `apply_all` change it.
    """

    group_metadata: dict[str, GroupMetadataValue] = field(default_factory=dict)
    consumer_groups: dict[str, ConsumerGroupState] = field(default_factory=dict)
    offsets: dict[str, OffsetsByTopic] = field(default_factory=dict)

    def apply(self, record: GroupRecord) -> None:
        """Apply one record; a tombstone for an unknown key changes nothing."""
        if isinstance(record, OffsetRecord):
            if record.value is None:
                self._remove_offset(record)
            else:
                by_topic = self.offsets.setdefault(record.group_id, {})
                by_topic.setdefault(record.topic, {})[record.partition] = record.value
        elif isinstance(record, ConsumerGroupRecord):
            self._apply_consumer(record)
        elif record.value is None:
            # As in Kafka, of whatever type the group is.
            self.group_metadata.pop(record.group_id, None)
            self.consumer_groups.pop(record.group_id, None)
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

    def _apply_consumer(self, record: ConsumerGroupRecord) -> None:
        group = self.consumer_groups.get(record.group_id)
        if group is None:
            if record.value is None:
                return
            group = self.consumer_groups[record.group_id] = ConsumerGroupState()
        if not group.apply(record):
            del self.consumer_groups[record.group_id]

    def clear(self) -> None:
        """Remove everything, when another broker takes the partition."""
        self.group_metadata.clear()
        self.consumer_groups.clear()
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


LoadedGroups = Loaded[ReplayedState]
"""The groups of one log."""


class ReferenceReducer(RecordReducer[ReplayedState]):
    """The reference backend, which needs no compiler."""

    def __init__(self) -> None:
        super().__init__()
        self._replayed = ReplayedState()
        self._latest: dict[tuple[str, str, int], OffsetValue] = {}
        self._targets: dict[bytes, tuple[str, str, int]] = {}

    def _apply_record(self, key: bytes | None, value: bytes | None) -> None:
        # Most keys occur again: their bytes are decoded once, and then only values are.
        target = self._targets.get(key) if key is not None else None
        if target is None:
            target = self._target(key, value)
        if target is not None:
            if value is None:
                self._latest.pop(target, None)
            else:
                self._latest[target] = decode_offset_value(value)

    def _target(self, key: bytes | None, value: bytes | None) -> tuple[str, str, int] | None:
        """Group, topic and partition of an offset's key; None for other records, which are applied at once."""
        found = decode(key, None)
        if isinstance(found, OffsetRecord):
            assert key is not None
            target = self._targets[key] = (found.group_id, found.topic, found.partition)
            return target
        if found is None:
            self.unknown += 1
        else:
            record = decode(key, value)
            assert record is not None
            self._replayed.apply(record)
        return None

    def finish(self) -> LoadedGroups:
        offsets = self._replayed.offsets
        for (group_id, topic, partition), value in self._latest.items():
            offsets.setdefault(group_id, {}).setdefault(topic, {})[partition] = value
        return LoadedGroups(self._replayed, self.unknown, tuple(self.problems))
