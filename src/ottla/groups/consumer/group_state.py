"""What the records of one consumer group replay to, and what is derived from it; only `apply` changes it, at a restart and while running.

Records may be missing after a cleaning of the log, so that no record needs another: types 5 and 8 each create the member.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ottla.groups.consumer.member import NO_EPOCH, Assigned, ConsumerMember, Partitions, ReconciliationState
from ottla.groups.log.records import ConsumerGroupRecord

EPOCH, PARTITION_METADATA, MEMBER, TARGET_EPOCH, TARGET, CURRENT, REGEX = 3, 4, 5, 6, 7, 8, 16
INITIAL_EPOCH: Final = 1


@dataclass(frozen=True, slots=True)
class ResolvedRegex:
    """The topics that a regular expression matches, as of a version of the cluster's topics."""

    topics: frozenset[str]
    version: int
    at_ms: int


@dataclass(slots=True)
class SubscriptionCounts:
    """How many members subscribe to each topic by name, and to each regular expression."""

    names: dict[str, int] = field(default_factory=dict)
    regexes: dict[str, int] = field(default_factory=dict)

    def change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count `new` in place of `old`."""
        if old is not None and new is not None and old.topics == new.topics and old.regex == new.regex:
            return
        for member, change in ((old, -1), (new, 1)):
            if member is not None:
                for topic in member.topics:
                    _count(self.names, topic, change)
                if member.regex:
                    _count(self.regexes, member.regex, change)

    def changed(self, old: ConsumerMember | None, new: ConsumerMember | None) -> "SubscriptionCounts":
        """A copy with `new` in place of `old`."""
        copy = SubscriptionCounts(dict(self.names), dict(self.regexes))
        copy.change(old, new)
        return copy

    def topics(self, resolved: Mapping[str, ResolvedRegex]) -> set[str]:
        """All topics, by name and by regular expression."""
        topics = set(self.names)
        for regex in self.regexes:
            if regex in resolved:
                topics |= resolved[regex].topics
        return topics


@dataclass(slots=True)
class ClassicCounts:
    """How many members are of the classic protocol, and how many of them support each of its protocols."""

    members: int = 0
    protocols: dict[str, int] = field(default_factory=dict)

    def change(self, old: ConsumerMember | None, new: ConsumerMember | None) -> None:
        """Count `new` in place of `old`."""
        before, after = None if old is None else old.classic, None if new is None else new.classic
        if before is after:
            return
        for classic, change in ((before, -1), (after, 1)):
            if classic is not None:
                self.members += change
                for name in {protocol.name for protocol in classic.supported_protocols}:
                    _count(self.protocols, name, change)

    def support(self, names: Iterable[str]) -> bool:
        """Whether all members of the classic protocol support one of these."""
        return any(self.protocols.get(name, 0) == self.members for name in names)


def _count(counts: dict[str, int], name: str, change: int) -> None:
    count = counts.get(name, 0) + change
    if count:
        counts[name] = count
    else:
        counts.pop(name, None)


@dataclass(slots=True)
class ConsumerGroupState:
    """The durable state of one group. `assignment_epoch` and `assigned_at_ms` are those of the last target assignment."""

    epoch: int = INITIAL_EPOCH
    metadata_hash: int = 0
    assignment_epoch: int = INITIAL_EPOCH
    assigned_at_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    targets: dict[str, Partitions] = field(default_factory=dict)
    regexes: dict[str, ResolvedRegex] = field(default_factory=dict)
    has_partition_metadata: bool = False
    """Whether a record of a broker before 4.1 is to be deleted."""
    static_members: dict[str, str] = field(default_factory=dict, compare=False)
    """Instance id to member id."""
    subscriptions: SubscriptionCounts = field(default_factory=SubscriptionCounts, compare=False)
    classic: ClassicCounts = field(default_factory=ClassicCounts, compare=False)
    _owner_epochs: dict[bytes, dict[int, int]] = field(default_factory=dict, compare=False)

    def owner_epoch(self, topic_id: bytes, partition: int) -> int:
        """The epoch of the member that owns a partition or has not released it, -1 if there is none."""
        return self._owner_epochs.get(topic_id, {}).get(partition, NO_EPOCH)

    @property
    def is_reconciled(self) -> bool:
        """Whether every member has its target."""
        return all(
            member.state is ReconciliationState.STABLE and member.member_epoch == self.assignment_epoch for member in self.members.values()
        )

    def waits_for_others(self, member: ConsumerMember) -> bool:
        """Whether a partition of the member's target that it does not have is not released yet."""
        return any(
            number not in member.assigned.get(topic_id, ()) and self.owner_epoch(topic_id, number) != NO_EPOCH
            for topic_id, numbers in self.target(member.member_id).items()
            for number in numbers
        )

    def target(self, member_id: str) -> Partitions:
        """The target assignment of a member."""
        return self.targets.get(member_id, {})

    def apply(self, record: ConsumerGroupRecord) -> bool:
        """Apply one record; a tombstone of something unknown changes nothing. Returns False when the group is gone."""
        value: Any = record.value
        match record.record_type:
            case 3:
                if value is None:
                    return False
                self.epoch, self.metadata_hash = value.epoch, value.metadata_hash
            case 4:
                self.has_partition_metadata = value is not None
            case 5:
                self._apply_member(record.name, value)
            case 6:
                self.assignment_epoch = NO_EPOCH if value is None else value.assignment_epoch
                self.assigned_at_ms = 0 if value is None else value.assignment_timestamp_ms
            case 7 if value is None:
                self.targets.pop(record.name, None)
            case 7:
                self.targets[record.name] = {topic.topic_id: frozenset(topic.partitions) for topic in value.topic_partitions}
            case 8:
                self._apply_assignment(record.name, value)
            case 16 if value is None:
                self.regexes.pop(record.name, None)
            case 16:
                self.regexes[record.name] = ResolvedRegex(frozenset(value.topics), value.version, value.timestamp_ms)
        return True

    def _apply_member(self, member_id: str, value: Any) -> None:
        old = self.members.get(member_id)
        if value is not None:
            new = self.members[member_id] = (old or ConsumerMember(member_id=member_id)).with_metadata(value)
            self.subscriptions.change(old, new)
            self.classic.change(old, new)
            if new.instance_id is not None:
                self.static_members[new.instance_id] = member_id
        elif old is not None:
            del self.members[member_id]
            self._disown(old)
            self.subscriptions.change(old, None)
            self.classic.change(old, None)
            if old.instance_id is not None and self.static_members.get(old.instance_id) == member_id:
                del self.static_members[old.instance_id]

    def _apply_assignment(self, member_id: str, value: Any) -> None:
        """Owners come of these records alone: what a cleaning left of a member may name partitions that another one has got since."""
        old = self.members.get(member_id)
        if old is not None:
            self._disown(old)
        if value is not None:
            new = self.members[member_id] = (old or ConsumerMember(member_id=member_id)).with_assignment(value)
            for topic_id, number in _partitions_of(new):
                self._owner_epochs.setdefault(topic_id, {})[number] = new.member_epoch
        elif old is not None:
            self.members[member_id] = old.without_assignment()

    def _disown(self, member: ConsumerMember) -> None:
        """Forget what it owned, but for partitions that another member has got since: its record may be one that a cleaning left out."""
        for topic_id, number in _partitions_of(member):
            of_topic = self._owner_epochs.get(topic_id, {})
            if of_topic.get(number) == member.member_epoch:
                del of_topic[number]
                if not of_topic:
                    del self._owner_epochs[topic_id]


def _partitions_of(member: ConsumerMember) -> Iterator[tuple[bytes, int]]:
    owned: Assigned
    for owned in (member.assigned, member.pending):
        for topic_id, numbers in owned.items():
            for number in numbers:
                yield topic_id, number
