"""KIP-848 groups from their records (types 3 to 8 and 16): a replay that shows what each change of epoch came with.

A leave and a fence write the same records (tombstones 8, 7, 5, then 3), so who left is known and why is not. The reading of a group may
begin anywhere, as compaction removes what later records replace. Source: KIP-848, Kafka's `GroupMetadataManager.replay`.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final

from ottla.groups.events import EventMember
from ottla.history.sources.evidence import Cause, Evidence, Kind, about_member
from ottla.protocol.coordinator_records import (
    AssignedTopicPartitions,
    ClassicMemberMetadata,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    GroupKey,
    MemberKey,
    RegularExpressionKey,
    TargetAssignmentMemberValue,
    TargetAssignmentMetadataValue,
    TopicPartitions,
)
from ottla.protocol.record_codec import DecodedRecord, uuid_text

STABLE, UNREVOKED_PARTITIONS = 0, 1
"""States of a member's reconciliation (Kafka: `MemberState`); UNREVOKED_PARTITIONS: it has not given up yet what it shall."""
STATIC_LEAVE_EPOCH: Final = -2
NO_TIMEOUT: Final = -1


@dataclass(slots=True, kw_only=True)
class ConsumerMember:
    """A member. `metadata` is the value of type 5, None while only other types are known; `target` and `assigned`: topic to partitions.

    `reconciled_epoch`: the last target epoch that it reached. `revoking_since_ms`: None unless it must give up partitions.
    """

    member_id: str
    metadata: ConsumerGroupMemberMetadataValue | None = None
    target: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    epoch: int = NO_TIMEOUT
    state: int = STABLE
    reconciled_epoch: int = 0
    revoking_since_ms: int | None = None

    @property
    def instance_id(self) -> str | None:
        return None if self.metadata is None else self.metadata.instance_id

    @property
    def subscription(self) -> tuple[frozenset[str], str]:
        """The topics, and the regular expression ("" for none)."""
        if self.metadata is None:
            return frozenset(), ""
        return frozenset(self.metadata.subscribed_topic_names), self.metadata.subscribed_topic_regex or ""

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol in a group of the new one."""
        return self._classic is not None

    @property
    def _classic(self) -> ClassicMemberMetadata | None:
        classic = None if self.metadata is None else self.metadata.classic_member_metadata
        return None if classic == ClassicMemberMetadata() else classic

    def event_member(self, assignment: Mapping[str, Sequence[int]] = MappingProxyType({})) -> EventMember:
        """The member with this assignment. A member of the new protocol has its session timeout from the group's settings: -1 here."""
        metadata, classic = self.metadata, self._classic
        return EventMember(
            member_id=self.member_id,
            instance_id=self.instance_id,
            client_id="" if metadata is None else metadata.client_id,
            client_host="" if metadata is None else metadata.client_host,
            session_timeout_ms=NO_TIMEOUT if classic is None else classic.session_timeout_ms,
            rebalance_timeout_ms=NO_TIMEOUT if metadata is None else metadata.rebalance_timeout_ms,
            assignment=dict(assignment),
        )


@dataclass(slots=True, kw_only=True)
class ConsumerGroup:
    """A group. `joined`, `left`, ... are changes since the last epoch, which the next epoch explains.

    `metadata_hash`: of the subscribed topics (0 before 4.1); `partition_metadata`: the topics as brokers before 4.1 wrote them.
    """

    epoch: int = 0
    metadata_hash: int = 0
    partition_metadata: object = None
    target_epoch: int = 0
    target_at_ms: int = 0
    members: dict[str, ConsumerMember] = field(default_factory=dict)
    regular_expressions: dict[str, frozenset[str]] = field(default_factory=dict)
    joined: list[ConsumerMember] = field(default_factory=list)
    left: list[ConsumerMember] = field(default_factory=list)
    resubscribed: int = 0
    assignors_changed: int = 0
    are_topics_changed: bool = False

    def member(self, member_id: str) -> ConsumerMember:
        """The member, new if no record named it before."""
        member = self.members.get(member_id)
        if member is None:
            member = self.members[member_id] = ConsumerMember(member_id=member_id)
        return member

    def topics(self) -> frozenset[str]:
        """All subscribed topics, those that regular expressions match included."""
        named = [member.subscription[0] for member in self.members.values()]
        return frozenset().union(*named, *self.regular_expressions.values())

    def end_epoch(self) -> None:
        """Forget the changes that an epoch has explained."""
        self.joined, self.left = [], []
        self.resubscribed = self.assignors_changed = 0
        self.are_topics_changed = False


CONSUMER: Final = "consumer"
LEFT_OR_FENCED: Final = (Cause.LEAVE_CLOSE.value, Cause.POLL_TIMEOUT.value, Cause.EXPIRE_HEARTBEAT.value)
"""What the records of a member's end cannot tell apart; one that had not revoked its partitions may also be a JOIN_TIMEOUT."""
_FIRST_EPOCH: Final = 2
"""The epoch of a group's first members; the first record of a group at a later epoch shows a group that was there before."""


class ConsumerReplay:
    """Replays the records of one KIP-848 group. `topic_names`: topic ids to names; ids without a name stand for themselves.

    `converted`: ids of the members of the classic group that it was, who do not join it.
    """

    def __init__(self, topic_names: MutableMapping[str, str], converted: Collection[str] = ()) -> None:
        self.group = ConsumerGroup()
        self._topic_names = topic_names
        self._converted = converted

    def apply(self, record: DecodedRecord, head: Evidence) -> Iterator[Evidence]:
        """The evidence of one record, which is no tombstone of the group itself; `head` has the time, the source and the group."""
        if record.value is None:
            self._remove(record)
            return iter(())
        return _APPLY[record.record_type](self, record.key, record.value, head)

    def _remove(self, record: DecodedRecord) -> None:
        if record.record_type == 5:
            member = self.group.members.pop(record.key.member_id, None)
            if member is not None:
                self.group.left.append(member)
        elif record.record_type == 16:
            self.group.regular_expressions.pop(record.key.regular_expression, None)

    def _epoch(self, key: GroupKey, value: ConsumerGroupMetadataValue, head: Evidence) -> Iterator[Evidence]:
        """Type 3: a new epoch, after the changes that caused it."""
        group, epoch, metadata_hash = self.group, value.epoch, value.metadata_hash
        if self._converted and group.epoch == 0:
            group.end_epoch()  # the classic group's last generation goes on as this epoch
        elif epoch != group.epoch and (group.members or group.left):
            has_history = group.epoch > 0 or epoch <= _FIRST_EPOCH
            head = replace(head, generation=epoch, topics=group.topics())
            figures = self._changes(metadata_hash) if has_history else {}
            if has_history:
                yield from self._member_changes(head, figures)
            members = tuple(member.event_member() for member in group.members.values())
            kind = Kind.JOIN_COMPLETED if members else Kind.EMPTIED
            yield replace(head, kind=kind, members=members, evidence=figures)
            group.end_epoch()
        group.epoch, group.metadata_hash = epoch, metadata_hash

    def _changes(self, metadata_hash: int) -> dict[str, int]:
        """The changes since the epoch before, in figures."""
        group = self.group
        is_hash_changed = group.epoch > 0 and metadata_hash != group.metadata_hash
        return {
            "members_joined": len(group.joined),
            "members_left": len(group.left),
            "members_resubscribed": group.resubscribed,
            "assignors_changed": group.assignors_changed,
            "metadata_changed": int(is_hash_changed or group.are_topics_changed),
        }

    def _member_changes(self, head: Evidence, figures: Mapping[str, int]) -> Iterator[Evidence]:
        group = self.group
        for member in group.left:
            yield about_member(replace(head, kind=Kind.MEMBER_LEFT, candidates=_why_left(member)), member.event_member())
        for member in group.joined:
            yield about_member(replace(head, kind=Kind.MEMBER_JOINED), member.event_member())
        # Another set of members, or another subscription, changes the hash, too.
        if figures["metadata_changed"] and not (group.joined or group.left or group.resubscribed):
            yield replace(head, kind=Kind.TOPICS_CHANGED)

    def _partition_metadata(self, key: GroupKey, value: ConsumerGroupPartitionMetadataValue, head: Evidence) -> Iterator[Evidence]:
        """Type 4, of brokers before 4.1: the subscribed topics with their ids and partitions."""
        for topic in value.topics:
            self._topic_names.setdefault(uuid_text(topic.topic_id), topic.topic_name)
        if self.group.partition_metadata is not None and self.group.partition_metadata != value:
            self.group.are_topics_changed = True
        self.group.partition_metadata = value
        return iter(())

    def _member(self, key: MemberKey, value: ConsumerGroupMemberMetadataValue, head: Evidence) -> Iterator[Evidence]:
        """Type 5: a new member, or one with other settings. One with the instance id of a member that has gone replaces it."""
        group = self.group
        member = group.member(key.member_id)
        before, was_known, old_subscription = member.metadata, member.metadata is not None, member.subscription
        member.metadata = value
        if was_known:
            assert before is not None, "it is known by its metadata"
            group.resubscribed += member.subscription != old_subscription
            group.assignors_changed += before.server_assignor != value.server_assignor
            return
        instance_id = value.instance_id
        member.reconciled_epoch = group.target_epoch  # it is no part of targets before it
        if member.member_id in self._converted:
            return
        old = next((each for each in group.left if instance_id is not None and each.instance_id == instance_id), None)
        if old is None:
            group.joined.append(member)
            return
        group.left.remove(old)
        member.target, member.assigned, member.reconciled_epoch = old.target, old.assigned, old.reconciled_epoch
        group.resubscribed += member.subscription != old.subscription
        head = replace(head, kind=Kind.STATIC_REPLACED, generation=group.epoch or None, reason=f"replaces {old.member_id}")
        yield about_member(head, member.event_member())

    def _target(self, key: GroupKey, value: TargetAssignmentMetadataValue, head: Evidence) -> Iterator[Evidence]:
        """Type 6: the target assignment of an epoch is complete; the members' targets came before it.

        The first one of a group that was converted is the assignment that its members had.
        """
        group, epoch = self.group, value.assignment_epoch
        if epoch <= 0 or epoch == group.target_epoch:
            return
        is_conversion = bool(self._converted) and group.target_epoch == 0
        group.target_epoch, group.target_at_ms = epoch, head.at_ms
        if not group.members:
            return
        members = tuple(member.event_member(member.target) for member in group.members.values())
        computed_ms = value.assignment_timestamp_ms
        figures = {"target_computed_ms": computed_ms} if computed_ms > 0 else {}
        head = replace(head, generation=epoch, members=members, topics=group.topics(), protocol=self._assignor())
        if is_conversion:
            for member in group.members.values():
                member.reconciled_epoch = epoch
            yield replace(head, kind=Kind.OBSERVED)
        else:
            yield replace(head, kind=Kind.SYNC_COMPLETED, evidence=figures)

    def _target_member(self, key: MemberKey, value: TargetAssignmentMemberValue, head: Evidence) -> Iterator[Evidence]:
        """Type 7."""
        self.group.member(key.member_id).target = self._partitions(value.topic_partitions)
        return iter(())

    def _current(self, key: MemberKey, value: ConsumerGroupCurrentMemberAssignmentValue, head: Evidence) -> Iterator[Evidence]:
        """Type 8: where a member is on its way to its target; a static leave."""
        group, member = self.group, self.group.member(key.member_id)
        member.assigned = self._partitions(value.assigned_partitions)
        member.epoch, member.state = value.member_epoch, value.state
        head = about_member(head, member.event_member())
        if member.epoch == STATIC_LEAVE_EPOCH:
            figures = {"member_epoch": STATIC_LEAVE_EPOCH}
            yield replace(head, kind=Kind.MEMBER_LEFT, generation=group.epoch or None, evidence=figures, candidates=AWAY)
            return
        if member.state == UNREVOKED_PARTITIONS and member.revoking_since_ms is None:
            member.revoking_since_ms = head.at_ms
        revoked_ms = None
        if member.state != UNREVOKED_PARTITIONS and member.revoking_since_ms is not None:
            revoked_ms = max(0, head.at_ms - member.revoking_since_ms)
            member.revoking_since_ms = None
        is_new = member.state == STABLE and 0 < group.target_epoch <= member.epoch and member.reconciled_epoch < group.target_epoch
        if is_new or revoked_ms is not None:
            figures = {"member_epoch": member.epoch}
            if is_new:
                member.reconciled_epoch = group.target_epoch
                figures["reconciliation_ms"] = max(0, head.at_ms - group.target_at_ms)
            if revoked_ms is not None:
                figures["revocation_ms"] = revoked_ms
            yield replace(head, kind=Kind.MEMBER_RECONCILED, generation=group.target_epoch or None, evidence=figures)

    def _regular_expression(
        self, key: RegularExpressionKey, value: ConsumerGroupRegularExpressionValue, head: Evidence
    ) -> Iterator[Evidence]:
        """Type 16: the topics that a regular expression matches."""
        topics, before = frozenset(value.topics), self.group.regular_expressions.get(key.regular_expression)
        if before is not None and before != topics:
            self.group.are_topics_changed = True
        self.group.regular_expressions[key.regular_expression] = topics
        return iter(())

    def _assignor(self) -> str | None:
        metadata = [member.metadata for member in self.group.members.values() if member.metadata is not None]
        return ",".join(sorted({value.server_assignor for value in metadata if value.server_assignor})) or None

    def _partitions(self, entries: Iterable[TopicPartitions | AssignedTopicPartitions]) -> dict[str, tuple[int, ...]]:
        named = ((uuid_text(entry.topic_id), entry.partitions) for entry in entries)
        return {self._topic_names.get(topic_id, topic_id): partitions for topic_id, partitions in named}


AWAY: Final = (Cause.STATIC_REJOIN.value, *LEFT_OR_FENCED)


def _why_left(member: ConsumerMember) -> tuple[str, ...]:
    if member.state == UNREVOKED_PARTITIONS:
        return (*LEFT_OR_FENCED, Cause.JOIN_TIMEOUT.value)
    return LEFT_OR_FENCED


_Apply = Callable[[ConsumerReplay, Any, Any, Evidence], Iterator[Evidence]]
_APPLY: Final[Mapping[int, _Apply]] = {
    3: ConsumerReplay._epoch,
    4: ConsumerReplay._partition_metadata,
    5: ConsumerReplay._member,
    6: ConsumerReplay._target,
    7: ConsumerReplay._target_member,
    8: ConsumerReplay._current,
    16: ConsumerReplay._regular_expression,
}
