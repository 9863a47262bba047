"""The five states of a classic group as tables: the transitions from each, and its answer to every request.

The handlers read these tables, and so do the tests and the documentation.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from types import MappingProxyType

from ottla.protocol.errors import ErrorCode


class GroupState(Enum):
    """A classic group's state; the value is Kafka's name on the wire.

    EMPTY: no members; committed offsets may remain. The first join starts a rebalance.
    PREPARING_REBALANCE: members join again and are parked in JoinGroup. It ends when all have joined, or by timeout.
    COMPLETING_REBALANCE: the generation has its members, which are parked in SyncGroup until the leader's assignment is stored.
    STABLE: the assignment is stored; every member can fetch its part.
    DEAD: deleted or unloaded, and about to be removed.
    """

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    __hash__ = object.__hash__  # Enum's own is Python code, which every heartbeat and commit would call


TRANSITIONS: Mapping[GroupState, frozenset[GroupState]] = MappingProxyType(
    {
        GroupState.EMPTY: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
        GroupState.PREPARING_REBALANCE: frozenset({GroupState.EMPTY, GroupState.COMPLETING_REBALANCE, GroupState.DEAD}),
        GroupState.COMPLETING_REBALANCE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.STABLE, GroupState.DEAD}),
        GroupState.STABLE: frozenset({GroupState.PREPARING_REBALANCE, GroupState.DEAD}),
        GroupState.DEAD: frozenset({GroupState.DEAD}),
    }
)


class Parked(Enum):
    """The answer that is not an error code: the request is parked until the group's state changes."""

    PARK = "parked"


PARK = Parked.PARK
Answer = ErrorCode | Parked


@dataclass(frozen=True, slots=True, kw_only=True)
class StateAnswers:
    """The response of one state to a valid request: from a known member, with its generation and the group's protocol.

    `join_changed` is JoinGroup from a member whose protocols differ from those it joined with; `join_same` is a follower's
    repeated JoinGroup. Empty has no members, so its responses apply to any member id.
    `commit` is a member's OffsetCommit, `commit_anonymous` one without generation and member id.
    `delete_offsets` is OffsetDelete in a group whose protocol type is not `consumer`; `describes_metadata`: whether
    DescribeGroups returns the members' metadata and the protocol.
    """

    join_new: Answer
    join_same: Answer
    join_changed: Answer
    sync: Answer
    heartbeat: ErrorCode
    leave: ErrorCode
    commit: ErrorCode
    commit_anonymous: ErrorCode
    delete_offsets: ErrorCode
    delete_group: ErrorCode
    describes_metadata: bool = False
    commits_keep_session: bool = False
    """A member's commit counts as a heartbeat."""


_E = ErrorCode

ANSWERS: Mapping[GroupState, StateAnswers] = MappingProxyType(
    {
        GroupState.EMPTY: StateAnswers(
            join_new=PARK,
            join_same=_E.UNKNOWN_MEMBER_ID,
            join_changed=_E.UNKNOWN_MEMBER_ID,
            sync=_E.UNKNOWN_MEMBER_ID,
            heartbeat=_E.UNKNOWN_MEMBER_ID,
            leave=_E.UNKNOWN_MEMBER_ID,
            commit=_E.UNKNOWN_MEMBER_ID,
            commit_anonymous=_E.NONE,
            delete_offsets=_E.NONE,
            delete_group=_E.NONE,
        ),
        GroupState.PREPARING_REBALANCE: StateAnswers(
            join_new=PARK,
            join_same=PARK,
            join_changed=PARK,
            sync=_E.REBALANCE_IN_PROGRESS,
            heartbeat=_E.REBALANCE_IN_PROGRESS,
            leave=_E.NONE,
            commit=_E.NONE,
            commit_anonymous=_E.UNKNOWN_MEMBER_ID,
            delete_offsets=_E.NON_EMPTY_GROUP,
            delete_group=_E.NON_EMPTY_GROUP,
            commits_keep_session=True,
        ),
        GroupState.COMPLETING_REBALANCE: StateAnswers(
            join_new=PARK,
            join_same=_E.NONE,
            join_changed=PARK,
            sync=PARK,
            heartbeat=_E.NONE,
            leave=_E.NONE,
            commit=_E.REBALANCE_IN_PROGRESS,
            commit_anonymous=_E.UNKNOWN_MEMBER_ID,
            delete_offsets=_E.NON_EMPTY_GROUP,
            delete_group=_E.NON_EMPTY_GROUP,
        ),
        GroupState.STABLE: StateAnswers(
            join_new=PARK,
            join_same=_E.NONE,
            join_changed=PARK,
            sync=_E.NONE,
            heartbeat=_E.NONE,
            leave=_E.NONE,
            commit=_E.NONE,
            commit_anonymous=_E.UNKNOWN_MEMBER_ID,
            delete_offsets=_E.NON_EMPTY_GROUP,
            delete_group=_E.NON_EMPTY_GROUP,
            describes_metadata=True,
            commits_keep_session=True,
        ),
        GroupState.DEAD: StateAnswers(
            join_new=_E.COORDINATOR_NOT_AVAILABLE,
            join_same=_E.COORDINATOR_NOT_AVAILABLE,
            join_changed=_E.COORDINATOR_NOT_AVAILABLE,
            sync=_E.COORDINATOR_NOT_AVAILABLE,
            heartbeat=_E.COORDINATOR_NOT_AVAILABLE,
            leave=_E.COORDINATOR_NOT_AVAILABLE,
            commit=_E.COORDINATOR_NOT_AVAILABLE,
            commit_anonymous=_E.COORDINATOR_NOT_AVAILABLE,
            delete_offsets=_E.GROUP_ID_NOT_FOUND,
            delete_group=_E.GROUP_ID_NOT_FOUND,
        ),
    }
)


def can_rebalance(state: GroupState) -> bool:
    """Whether a rebalance can start in this state; in PreparingRebalance one is in progress, which a trigger joins."""
    return GroupState.PREPARING_REBALANCE in TRANSITIONS[state]
