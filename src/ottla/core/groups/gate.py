"""Before any group is looked at: what a coordinator answers that cannot serve, and the answer of each kind of request to an error.

Order: group id, session timeout, loading, not the coordinator (S3.1; Kafka's `GroupCoordinatorService`).
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
from ottla.core.groups.join import session_timeout_is_allowed
from ottla.core.groups.settings import GroupSettings


class CoordinatorStatus(Enum):
    """LOADING until FinishLoading, then ACTIVE, RESIGNED after Resign for good."""

    LOADING = "loading"
    ACTIVE = "active"
    RESIGNED = "resigned"


NEEDS_GROUP_ID = (JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetDelete)
"""The empty group id is legal for the others: very old clients commit under it."""

WHILE_LOADING = {
    # The member joins again, without looking for another broker (S3.1).
    SyncGroup: ErrorCode.REBALANCE_IN_PROGRESS,
    # The session starts afresh when loading ends, so the member may as well believe that all is well.
    Heartbeat: ErrorCode.NONE,
}


def refusal(command: Request, status: CoordinatorStatus, settings: GroupSettings) -> Result | None:
    """The answer that is given without looking at any group, None when the group decides."""
    if isinstance(command, NEEDS_GROUP_ID) and not command.group_id:
        return error_result(command, ErrorCode.INVALID_GROUP_ID)
    if isinstance(command, JoinGroup) and not session_timeout_is_allowed(settings, command.session_timeout_ms):
        return error_result(command, ErrorCode.INVALID_SESSION_TIMEOUT)
    if status is CoordinatorStatus.LOADING:
        return error_result(command, WHILE_LOADING.get(type(command), ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
    if status is CoordinatorStatus.RESIGNED:
        return error_result(command, ErrorCode.NOT_COORDINATOR)
    return None


def error_result(command: Request, error: ErrorCode) -> Result:
    """`error` in the form that the request's answer has."""
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
