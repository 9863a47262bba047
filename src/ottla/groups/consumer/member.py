"""A member of a consumer group as a value, and its two records: what it asked for (type 5), and what it has (type 8).

Partitions are by topic id, so that a topic that was deleted and created again is another one.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum
from typing import Final

from ottla.protocol.coordinator_records import (
    AssignedTopicPartitions,
    ClassicMemberMetadata,
    ClassicProtocol,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    TargetAssignmentMemberValue,
    TopicPartitions,
)

JOIN_EPOCH: Final = 0
LEAVE_EPOCH: Final = -1
LEAVE_STATIC_EPOCH: Final = -2
"""The epoch of a static member that left for now: its partitions wait for it until its session ends."""
NO_EPOCH: Final = -1

Assigned = Mapping[bytes, Mapping[int, int]]
"""Partitions by topic id; of each, the assignment epoch: that of the target with which the member got it."""
Partitions = Mapping[bytes, Collection[int]]
"""Partitions by topic id."""


class ReconciliationState(IntEnum):
    """Where a member is on its way to its target; the numbers are those of records of type 8."""

    STABLE = 0
    """It has what its epoch gives it, and waits for nothing."""
    UNREVOKED_PARTITIONS = 1
    """It must give up partitions, and acknowledge that, before it gets the next epoch."""
    UNRELEASED_PARTITIONS = 2
    """It is at the target epoch, and waits for partitions that other members have not given up."""
    UNKNOWN = 127
    """Written by a later version: it must start again."""

    @classmethod
    def _missing_(cls, value: object) -> "ReconciliationState":
        return cls.UNKNOWN


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerMember:
    """One member. `topics` are those that it subscribes to by name; `regex` is "" without one. `pending`: to be revoked.

    `classic` is what a member of the classic protocol has besides.
    """

    member_id: str
    member_epoch: int = 0
    previous_member_epoch: int = NO_EPOCH
    state: ReconciliationState = ReconciliationState.STABLE
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    assigned: Assigned = field(default_factory=dict)
    pending: Assigned = field(default_factory=dict)
    classic: ClassicMemberMetadata | None = None

    @property
    def is_classic(self) -> bool:
        """Whether it is a member of the classic protocol."""
        return self.classic is not None

    @property
    def classic_protocol(self) -> ClassicProtocol:
        """The protocol that a member of the classic protocol prefers, which is the one that it is told."""
        assert self.classic is not None, f"{self.member_id} is of the consumer protocol"
        return self.classic.supported_protocols[0]

    @property
    def is_away(self) -> bool:
        """Whether it is a static member that left for now."""
        return self.member_epoch == LEAVE_STATIC_EPOCH

    def with_metadata(self, value: ConsumerGroupMemberMetadataValue) -> "ConsumerMember":
        """The member with what its record of type 5 says."""
        return replace(
            self,
            instance_id=value.instance_id,
            rack_id=value.rack_id,
            rebalance_timeout_ms=value.rebalance_timeout_ms,
            client_id=value.client_id,
            client_host=value.client_host,
            topics=frozenset(value.subscribed_topic_names),
            regex=value.subscribed_topic_regex or "",
            assignor=value.server_assignor,
            classic=value.classic_member_metadata,
        )

    def with_assignment(self, value: ConsumerGroupCurrentMemberAssignmentValue) -> "ConsumerMember":
        """The member with what its record of type 8 says."""
        epoch = value.member_epoch
        return replace(
            self,
            member_epoch=epoch,
            previous_member_epoch=value.previous_member_epoch,
            state=ReconciliationState(value.state),
            assigned=_with_epochs(value.assigned_partitions, epoch),
            pending=_with_epochs(value.partitions_pending_revocation, epoch),
        )

    def without_assignment(self) -> "ConsumerMember":
        """The member after the tombstone of its record of type 8."""
        return replace(
            self, member_epoch=NO_EPOCH, previous_member_epoch=NO_EPOCH, state=ReconciliationState.STABLE, assigned={}, pending={}
        )

    def metadata_value(self) -> ConsumerGroupMemberMetadataValue:
        """Its record of type 5."""
        return ConsumerGroupMemberMetadataValue(
            instance_id=self.instance_id,
            rack_id=self.rack_id,
            client_id=self.client_id,
            client_host=self.client_host,
            subscribed_topic_names=tuple(sorted(self.topics)),
            subscribed_topic_regex=self.regex,
            rebalance_timeout_ms=self.rebalance_timeout_ms,
            server_assignor=self.assignor,
            classic_member_metadata=self.classic,
        )

    def assignment_value(self) -> ConsumerGroupCurrentMemberAssignmentValue:
        """Its record of type 8."""
        return ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=self.member_epoch,
            previous_member_epoch=self.previous_member_epoch,
            state=self.state,
            assigned_partitions=_assigned_topics(self.assigned),
            partitions_pending_revocation=_assigned_topics(self.pending),
        )


def _with_epochs(topics: Iterable[AssignedTopicPartitions], member_epoch: int) -> Assigned:
    """Brokers before 4.3 wrote no assignment epochs: the member's epoch stands for them."""
    default = max(member_epoch, 0)
    assigned: dict[bytes, Mapping[int, int]] = {}
    for topic in topics:
        epochs = topic.assignment_epochs
        if epochs is None or len(epochs) != len(topic.partitions):
            epochs = (default,) * len(topic.partitions)
        assigned[topic.topic_id] = dict(zip(topic.partitions, epochs, strict=True))
    return assigned


def _assigned_topics(assigned: Assigned) -> tuple[AssignedTopicPartitions, ...]:
    return tuple(
        AssignedTopicPartitions(
            topic_id=topic_id, partitions=tuple(sorted(epochs)), assignment_epochs=tuple(epochs[number] for number in sorted(epochs))
        )
        for topic_id, epochs in assigned.items()
        if epochs
    )


def target_value(target: Partitions) -> TargetAssignmentMemberValue:
    """The record of type 7 of a target."""
    return TargetAssignmentMemberValue(
        topic_partitions=tuple(
            TopicPartitions(topic_id=topic_id, partitions=tuple(sorted(numbers))) for topic_id, numbers in target.items() if numbers
        )
    )


def is_within(some: Partitions, others: Partitions) -> bool:
    """Whether all of `some` are among `others`."""
    return all(number in others.get(topic_id, ()) for topic_id, numbers in some.items() for number in numbers)
