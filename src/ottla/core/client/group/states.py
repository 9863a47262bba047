"""The states of a member of a classic group, and every transition between them (Kafka: `AbstractCoordinator.MemberState`)."""

from enum import Enum
from typing import Final


class MemberState(Enum):
    """What a member does. `sends_heartbeats`: whether the coordinator expects heartbeats of it."""

    UNJOINED = "unjoined"
    """Not in the group, or a rebalance failed. Next: JoinGroup."""
    PREPARING_REBALANCE = "preparing rebalance"
    """JoinGroup was sent. The coordinator answers when all members have joined, and expects no heartbeat until then."""
    COMPLETING_REBALANCE = "completing rebalance"
    """JoinGroup was answered, SyncGroup is sent."""
    STABLE = "stable"
    """SyncGroup was answered with an assignment."""

    @property
    def sends_heartbeats(self) -> bool:
        return self in (MemberState.COMPLETING_REBALANCE, MemberState.STABLE)


TRANSITIONS: Final = {
    MemberState.UNJOINED: frozenset({MemberState.PREPARING_REBALANCE}),
    MemberState.PREPARING_REBALANCE: frozenset({MemberState.COMPLETING_REBALANCE, MemberState.UNJOINED}),
    MemberState.COMPLETING_REBALANCE: frozenset({MemberState.STABLE, MemberState.UNJOINED}),
    MemberState.STABLE: frozenset({MemberState.PREPARING_REBALANCE, MemberState.UNJOINED}),
}
"""From each state to those that may follow it."""
