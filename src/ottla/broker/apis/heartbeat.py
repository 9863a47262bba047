"""Heartbeat (12), v0-4: keeps a member's session alive, and returns REBALANCE_IN_PROGRESS during a rebalance.

Version notes: v3+ static members.
"""

from functools import partial
from typing import NamedTuple

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.groups.commands import Heartbeat, HeartbeatResult, Result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import is_flexible
from ottla.protocol.wire.primitives import COMPACT, PLAIN, Writer, bounded, int32
from ottla.security.access import Operation, ResourceType


class HeartbeatRequest(NamedTuple):
    """Its fields in their order; `instance_id` None before v3."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None


@bounded
def read_heartbeat(data: bytes, at: int, version: int) -> tuple[HeartbeatRequest, int]:
    """The request whose body begins at `at`. Raises PeerError."""
    fields = COMPACT if version >= 4 else PLAIN
    group_id, at = fields.text(data, at)
    generation, at = int32(data, at)
    member_id, at = fields.text(data, at)
    instance_id = None
    if version >= 3:
        instance_id, at = fields.nullable_text(data, at)
    return HeartbeatRequest(group_id, generation, member_id, instance_id), fields.end(data, at)


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


def _refuse(request: Request, error: ErrorCode) -> None:
    request.reply_bytes(_pack(request.version, error))


API = Api(
    key=ApiKey.HEARTBEAT,
    versions=range(5),
    handle=handle,
    decodes_itself=True,
    access=(Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_refuse),),
)
_ANSWERS = [{error: _pack(version, error) for error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)} for version in API.versions]
"""By version, the response to a known member."""
