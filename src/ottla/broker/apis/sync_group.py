"""SyncGroup (14), v0-5: the leader hands in the plan, everybody gets its own part.

Version notes: v3+ static members; v5+ names the protocol, which must be the group's (KIP-559): without it, INCONSISTENT_GROUP_PROTOCOL.
"""

from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import SyncGroup
from ottla.core.groups.effects import Result, SyncResult

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks the group's coordinator."""
    message = request.message
    protocol_type = getattr(message, "protocol_type", None)
    protocol_name = getattr(message, "protocol_name", None)
    if request.version >= 5 and (protocol_type is None or protocol_name is None):
        _answer(request, SyncResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    command = SyncGroup(
        reply_to=node.groups.wait_for(lambda result: _answer(request, result)),
        group_id=message.group_id,
        generation=message.generation_id,
        member_id=message.member_id,
        instance_id=getattr(message, "group_instance_id", None),
        protocol_type=protocol_type,
        protocol_name=protocol_name,
        assignments=tuple((part.member_id, part.assignment) for part in message.assignments),
    )
    node.groups.ask(message.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, SyncResult)
    out = Packer(is_flexible(request.key, request.version))
    if request.version >= 1:
        out.int32(NO_THROTTLE_MS)
    out.int16(result.error)
    if request.version >= 5:
        out.nullable_string(result.protocol_type).nullable_string(result.protocol_name)
    request.reply_body([out.octets(result.assignment).end().data])


API = Api(key=14, versions=range(6), handle=handle)
