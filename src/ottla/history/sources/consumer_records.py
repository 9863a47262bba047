"""KIP-848 groups from their records (types 3 to 8 and 16): a replay that shows what each change of epoch came with.

A leave and a fence write the same records (tombstones 8, 7, 5, then 3), so who left is known and why is not. The reading of a group may
begin anywhere, as compaction removes what later records replace. Source: KIP-848, Kafka's `GroupMetadataManager.replay`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from dataclasses import replace
from typing import Any, Final

from ottla.core.diagnosis.evidence.cause_codes import Cause
from ottla.core.diagnosis.evidence.consumer_members import (
    STABLE,
    STATIC_LEAVE_EPOCH,
    UNREVOKED_PARTITIONS,
    ConsumerGroup,
    ConsumerMember,
)
from ottla.core.diagnosis.evidence.model import Evidence, Kind, about_member
from ottla.core.records.schema import DecodedRecord

CONSUMER: Final = "consumer"
LEFT_OR_FENCED: Final = (Cause.LEAVE_CLOSE.value, Cause.POLL_TIMEOUT.value, Cause.EXPIRE_HEARTBEAT.value)
"""What the records of a member's end cannot tell apart; one that had not revoked its partitions may also be a JOIN_TIMEOUT."""
_FIRST_EPOCH: Final = 2
"""The epoch of a group's first members; the first record of a group at a later epoch shows a group that was there before."""
Value = Mapping[str, Any]


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
            member = self.group.members.pop(str(record.key["memberId"]), None)
            if member is not None:
                self.group.left.append(member)
        elif record.record_type == 16:
            self.group.regular_expressions.pop(str(record.key["regularExpression"]), None)

    def _epoch(self, key: Value, value: Value, head: Evidence) -> Iterator[Evidence]:
        """Type 3: a new epoch, after the changes that caused it."""
        group, epoch, metadata_hash = self.group, value["epoch"], value.get("metadataHash", 0)
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

    def _partition_metadata(self, key: Value, value: Value, head: Evidence) -> Iterator[Evidence]:
        """Type 4, of brokers before 4.1: the subscribed topics with their ids and partitions."""
        for topic in value["topics"]:
            self._topic_names.setdefault(topic["topicId"], topic["topicName"])
        if self.group.partition_metadata is not None and self.group.partition_metadata != value:
            self.group.are_topics_changed = True
        self.group.partition_metadata = value
        return iter(())

    def _member(self, key: Value, value: Value, head: Evidence) -> Iterator[Evidence]:
        """Type 5: a new member, or one with other settings. One with the instance id of a member that has gone replaces it."""
        group = self.group
        member = group.member(key["memberId"])
        before, was_known, old_subscription = member.metadata, member.metadata is not None, member.subscription
        member.metadata = value
        if was_known:
            assert before is not None, "it is known by its metadata"
            group.resubscribed += member.subscription != old_subscription
            group.assignors_changed += before["serverAssignor"] != value["serverAssignor"]
            return
        instance_id = value["instanceId"]
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

    def _target(self, key: Value, value: Value, head: Evidence) -> Iterator[Evidence]:
        """Type 6: the target assignment of an epoch is complete; the members' targets came before it.

        The first one of a group that was converted is the assignment that its members had.
        """
        group, epoch = self.group, value["assignmentEpoch"]
        if epoch <= 0 or epoch == group.target_epoch:
            return
        is_conversion = bool(self._converted) and group.target_epoch == 0
        group.target_epoch, group.target_at_ms = epoch, head.at_ms
        if not group.members:
            return
        members = tuple(member.event_member(member.target) for member in group.members.values())
        computed_ms = value.get("assignmentTimestamp", 0)
        figures = {"target_computed_ms": computed_ms} if computed_ms > 0 else {}
        head = replace(head, generation=epoch, members=members, topics=group.topics(), protocol=self._assignor())
        if is_conversion:
            for member in group.members.values():
                member.reconciled_epoch = epoch
            yield replace(head, kind=Kind.OBSERVED)
        else:
            yield replace(head, kind=Kind.SYNC_COMPLETED, evidence=figures)

    def _target_member(self, key: Value, value: Value, head: Evidence) -> Iterator[Evidence]:
        """Type 7."""
        self.group.member(key["memberId"]).target = self._partitions(value["topicPartitions"])
        return iter(())

    def _current(self, key: Value, value: Value, head: Evidence) -> Iterator[Evidence]:
        """Type 8: where a member is on its way to its target; a static leave."""
        group, member = self.group, self.group.member(key["memberId"])
        member.assigned = self._partitions(value["assignedPartitions"])
        member.epoch, member.state = value["memberEpoch"], value["state"]
        head = about_member(head, member.event_member())
        if member.epoch == STATIC_LEAVE_EPOCH:
            figures = {"member_epoch": STATIC_LEAVE_EPOCH}
            yield replace(head, kind=Kind.MEMBER_LEFT, generation=group.epoch or None, evidence=figures, candidates=_AWAY)
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

    def _regular_expression(self, key: Value, value: Value, head: Evidence) -> Iterator[Evidence]:
        """Type 16: the topics that a regular expression matches."""
        found, known = frozenset(value["topics"]), self.group.regular_expressions.get(key["regularExpression"])
        if known is not None and known != found:
            self.group.are_topics_changed = True
        self.group.regular_expressions[key["regularExpression"]] = found
        return iter(())

    def _assignor(self) -> str | None:
        metadata = [member.metadata for member in self.group.members.values() if member.metadata is not None]
        return ",".join(sorted({each["serverAssignor"] for each in metadata if each["serverAssignor"]})) or None

    def _partitions(self, entries: Any) -> dict[str, tuple[int, ...]]:
        return {self._topic_names.get(entry["topicId"], entry["topicId"]): tuple(entry["partitions"]) for entry in entries}


_AWAY: Final = (Cause.STATIC_REJOIN.value, *LEFT_OR_FENCED)


def _why_left(member: ConsumerMember) -> tuple[str, ...]:
    if member.state == UNREVOKED_PARTITIONS:
        return (*LEFT_OR_FENCED, Cause.JOIN_TIMEOUT.value)
    return LEFT_OR_FENCED


_Apply = Callable[[ConsumerReplay, Value, Value, Evidence], Iterator[Evidence]]
_APPLY: Final[Mapping[int, _Apply]] = {
    3: ConsumerReplay._epoch,
    4: ConsumerReplay._partition_metadata,
    5: ConsumerReplay._member,
    6: ConsumerReplay._target,
    7: ConsumerReplay._target_member,
    8: ConsumerReplay._current,
    16: ConsumerReplay._regular_expression,
}
