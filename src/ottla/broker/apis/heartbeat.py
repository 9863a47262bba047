"""Heartbeat (12), v0-4: keeps a member's session alive, and returns REBALANCE_IN_PROGRESS during a rebalance.

Version notes: v3+ static members.
"""

from functools import partial

from ottla.broker.coordination.group_router import GroupRouter
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.broker.protocol.requests.heartbeat import read_heartbeat
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import Heartbeat
from ottla.core.groups.effects import HeartbeatResult, Result
from ottla.core.wire.api_keys import ApiKey
from ottla.core.wire.messages import is_flexible
from ottla.core.wire.writer import Writer


def handle(request: Request, *, groups: GroupRouter) -> None:
    """Ask the group's coordinator, first for a response that needs no command."""
    asked = read_heartbeat(request.data, request.body_at, request.version)
    error = groups.fast_heartbeat(*asked)
    if error is not None:
        request.reply_bytes(_ANSWERS[request.version][error])
        return
    command = Heartbeat(
        reply_to=groups.expect_reply(partial(_answer, request), request),
        group_id=asked.group_id,
        generation=asked.generation,
        member_id=asked.member_id,
        instance_id=asked.instance_id,
    )
    groups.run(asked.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, HeartbeatResult)
    request.reply_bytes(_pack(request.version, result.error))


def _pack(version: int, error: ErrorCode) -> bytes:
    out = Writer(is_flexible(ApiKey.HEARTBEAT, version))
    if version >= 1:
        out.int32(NO_THROTTLE_MS)
    return bytes(out.int16(error).end().data)


API = Api(key=ApiKey.HEARTBEAT, versions=range(5), handle=handle, decodes_itself=True)
_ANSWERS = [{error: _pack(version, error) for error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)} for version in API.versions]
"""By version, the response to a known member."""
