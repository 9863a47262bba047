"""DescribeGroups (15), v0-6: state, protocol and members of classic groups.

Version notes: v3+ returns authorized operations on request; v4+ instance ids; v6+ answers GROUP_ID_NOT_FOUND for an unknown group, which
earlier versions describe as Dead (KIP-1043).
"""

from collections.abc import Iterable, Iterator
from typing import Any

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.broker.network.scheduling import RequestScheduler
from ottla.groups.commands import DescribeGroup, DescribeResult, Result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import OPERATIONS_NOT_ASKED_FOR, Operation, ResourceType


def handle(request: Request, *, groups: GroupRouter, scheduler: RequestScheduler) -> None:
    """Ask each group's coordinator, in pieces; reads never wait. A group that is named twice is described once."""
    described = _described(groups, request, dict.fromkeys(request.message.groups))
    scheduler.run(request, request.reply_in_pieces({"throttle_time": NO_THROTTLE_MS, "groups": described}))


def _described(groups: GroupRouter, request: Request, group_ids: Iterable[str]) -> Iterator[dict[str, Any]]:
    asked = bool(getattr(request.message, "include_authorized_operations", False))
    results: list[Result] = []
    for group_id in group_ids:
        reply_to = groups.expect_reply(results.append, request)
        groups.run(group_id, DescribeGroup(reply_to=reply_to, group_id=group_id, unknown_is_error=request.version >= 6))
        result = results.pop()
        assert isinstance(result, DescribeResult)
        yield _group(result, request.session.operations(ResourceType.GROUP, group_id) if asked else OPERATIONS_NOT_ASKED_FOR)


def _group(result: DescribeResult, operations: int) -> dict[str, Any]:
    return {
        "error_code": result.error,
        "error_message": result.error_message,
        "group_id": result.group_id,
        "group_state": result.state,
        "protocol_type": result.protocol_type,
        "protocol_data": result.protocol_data,
        "members": (
            {
                "member_id": member.member_id,
                "group_instance_id": member.instance_id,
                "client_id": member.client_id,
                "client_host": member.client_host,
                "member_metadata": member.metadata,
                "member_assignment": member.assignment,
            }
            for member in result.members
        ),
        "authorized_operations": operations if result.error is ErrorCode.NONE else OPERATIONS_NOT_ASKED_FOR,
    }


def _refuse(group_id: str, error: ErrorCode) -> dict[str, Any]:
    return _group(DescribeResult(error=error, group_id=group_id), OPERATIONS_NOT_ASKED_FOR)


API = Api(
    key=ApiKey.DESCRIBE_GROUPS,
    versions=range(7),
    handle=handle,
    access=(Access(Operation.DESCRIBE, ResourceType.GROUP, "groups[]", refuse=_refuse, answers="groups"),),
)
