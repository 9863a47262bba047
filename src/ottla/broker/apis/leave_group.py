"""LeaveGroup (13), v0-5: removes members, which leave on their own or are removed by an administrator.

Version notes: v0-2 remove one member, whose result is the top-level error; v3+ a batch (KIP-345); v5+ carries reasons (KIP-800).
"""

from typing import Any

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.groups.commands import LeaveGroup, LeaveResult, LeavingMember, Result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.security.access import Operation, ResourceType


def handle(request: Request, *, groups: GroupRouter) -> None:
    """Ask the group's coordinator."""
    message = request.message
    if request.version >= 3:
        members = tuple(_leaving(member) for member in message.members)
    else:
        members = (LeavingMember(member_id=message.member_id, instance_id=None, reason=None),)
    command = LeaveGroup(
        reply_to=groups.expect_reply(lambda result: _answer(request, result), request),
        group_id=message.group_id,
        members=members,
        client_port=request.session.client_port,
    )
    groups.run(message.group_id, command)


def _leaving(member: Any) -> LeavingMember:
    return LeavingMember(member_id=member.member_id, instance_id=member.group_instance_id, reason=getattr(member, "reason", None))


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, LeaveResult)
    error = result.error
    if request.version < 3 and error is ErrorCode.NONE and result.members:
        error = result.members[0].error
    members = [{"member_id": left.member_id, "group_instance_id": left.instance_id, "error_code": left.error} for left in result.members]
    request.reply({"throttle_time": NO_THROTTLE_MS, "error_code": error, "members": members})


def _refuse(request: Request, error: ErrorCode) -> None:
    _answer(request, LeaveResult(error=error))


API = Api(
    key=ApiKey.LEAVE_GROUP,
    versions=range(6),
    handle=handle,
    elements_max=10_000,
    access=(Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_refuse),),
)
