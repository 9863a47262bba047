"""Checks that come before any group is looked up, and the response of each request type for an error.

Order, as in Kafka's `GroupCoordinatorService`: group id, session timeout, loading, not the coordinator.
"""

from enum import Enum

from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import (
    DeleteGroup,
    DescribeGroup,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    ListGroups,
    OffsetCommit,
    OffsetDelete,
    OffsetFetch,
    Request,
    SyncGroup,
)
from ottla.core.groups.effects import (
    CommitResult,
    DeleteResult,
    DescribeResult,
    HeartbeatResult,
    JoinResult,
    LeaveResult,
    ListResult,
    OffsetDeleteResult,
    OffsetFetchResult,
    Result,
    SyncResult,
)
from ottla.core.groups.settings import GroupSettings


class CoordinatorStatus(Enum):
    """LOADING until FinishLoading, then ACTIVE; RESIGNED after Resign, which is final."""

    LOADING = "loading"
    ACTIVE = "active"
    RESIGNED = "resigned"


NEEDS_GROUP_ID = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete)
"""The other requests accept the empty group id, under which very old clients commit."""

WHILE_LOADING = {
    # The member joins again at this broker, without looking for another coordinator.
    SyncGroup: ErrorCode.REBALANCE_IN_PROGRESS,
    # Sessions restart when loading ends, so the member need not react.
    Heartbeat: ErrorCode.NONE,
}


def refusal(command: Request, status: CoordinatorStatus, settings: GroupSettings) -> Result | None:
    """The response that does not depend on the group; None when the group must be looked up."""
    if isinstance(command, NEEDS_GROUP_ID) and not command.group_id:
        return error_result(command, ErrorCode.INVALID_GROUP_ID)
    if isinstance(command, JoinGroup) and not settings.allows_session_timeout(command.session_timeout_ms):
        return error_result(command, ErrorCode.INVALID_SESSION_TIMEOUT)
    if status is CoordinatorStatus.LOADING:
        return error_result(command, WHILE_LOADING.get(type(command), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    if status is CoordinatorStatus.RESIGNED:
        return error_result(command, ErrorCode.NOT_COORDINATOR)
    return None


def error_result(command: Request, error: ErrorCode) -> Result:
    """The request's response with `error`."""
    match command:
        case JoinGroup():
            return JoinResult(error=error, member_id=command.member_id)
        case SyncGroup():
            return SyncResult(error=error)
        case Heartbeat():
            return HeartbeatResult(error=error)
        case LeaveGroup():
            return LeaveResult(error=error)
        case OffsetCommit():
            return CommitResult(errors=(error,) * len(command.offsets))
        case OffsetFetch():
            return OffsetFetchResult(error=error)
        case OffsetDelete():
            return OffsetDeleteResult(error=error)
        case DescribeGroup():
            return DescribeResult(error=error, group_id=command.group_id)
        case ListGroups():
            return ListResult(error=error)
        case DeleteGroup():
            return DeleteResult(error=error)
