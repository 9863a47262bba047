"""Members and groups of KIP-848 as their records in the offsets topic leave them (types 3 to 8): values that a replay changes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from ottla.core.model import EventMember

STABLE, UNREVOKED_PARTITIONS = 0, 1
"""States of a member's reconciliation (Kafka: `MemberState`); UNREVOKED_PARTITIONS: it has not given up yet what it shall."""
STATIC_LEAVE_EPOCH: Final = -2
NO_TIMEOUT: Final = -1


@dataclass(slots=True, kw_only=True)
class ConsumerMember:
    """A member. `metadata` are the fields of type 5, None while only other types are known; `target` and `assigned`: topic to partitions.

    `reconciled_epoch`: the last target epoch that it reached. `revoking_since_ms`: None unless it must give up partitions.
    """

    member_id: str
    metadata: Mapping[str, Any] | None = None
    target: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    assigned: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    epoch: int = NO_TIMEOUT
    state: int = STABLE
    reconciled_epoch: int = 0
    revoking_since_ms: int | None = None

    @property
    def instance_id(self) -> str | None:
        instance_id: str | None = None if self.metadata is None else self.metadata["instanceId"]
        return instance_id

    @property
    def subscription(self) -> tuple[frozenset[str], str]:
        """The topics, and the regular expression ("" for none)."""
        if self.metadata is None:
            return frozenset(), ""
        return frozenset(self.metadata["subscribedTopicNames"]), self.metadata["subscribedTopicRegex"] or ""

    @property
    def is_classic(self) -> bool:
        """Whether it speaks the classic protocol in a group of the new one."""
        return self.metadata is not None and self.metadata.get("classicMemberMetadata") is not None

    def event_member(self, assignment: Mapping[str, Sequence[int]] = MappingProxyType({})) -> EventMember:
        """The member with this assignment. A member of the new protocol has its session timeout from the group's settings: -1 here."""
        metadata = self.metadata or {}
        classic = metadata.get("classicMemberMetadata") or {}
        return EventMember(
            member_id=self.member_id,
            instance_id=metadata.get("instanceId"),
            client_id=metadata.get("clientId", ""),
            client_host=metadata.get("clientHost", ""),
            session_timeout_ms=classic.get("sessionTimeoutMs", NO_TIMEOUT),
            rebalance_timeout_ms=metadata.get("rebalanceTimeoutMs", NO_TIMEOUT),
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
