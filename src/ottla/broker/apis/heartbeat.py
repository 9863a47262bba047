"""Heartbeat (12), v0-4: a member is alive, and hears whether a rebalance has begun.

Version notes: v3+ static members.
"""

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.broker.requests.heartbeat import read_heartbeat
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import Heartbeat
from ottla.core.groups.effects import HeartbeatResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks the group's coordinator, first for the answer that needs no step."""
    asked = read_heartbeat(request.data, request.body_at, request.version)
    error = node.groups.beat(*asked)
    if error is not None:
        request.reply_bytes(_ANSWERS[request.version][error])
        return
    command = Heartbeat(
        reply_to=node.groups.wait_for(partial(_answer, request), request),
        group_id=asked.group_id,
        generation=asked.generation,
        member_id=asked.member_id,
        instance_id=asked.instance_id,
    )
    node.groups.ask(asked.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, HeartbeatResult)
    request.reply_bytes(_pack(request.version, result.error))


def _pack(version: int, error: ErrorCode) -> bytes:
    out = Packer(is_flexible(12, version))
    if version >= 1:
        out.int32(NO_THROTTLE_MS)
    return bytes(out.int16(error).end().data)


API = Api(key=12, versions=range(5), handle=handle, decodes_itself=True)
_ANSWERS = [{error: _pack(version, error) for error in (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)} for version in API.versions]
"""By version, what a beat of a member that is known is answered."""
