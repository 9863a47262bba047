"""Heartbeat (12), v0-4: a member is alive, and hears whether a rebalance has begun.

Version notes: v3+ static members.
"""

from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.core.groups.commands import Heartbeat
from ottla.core.groups.effects import HeartbeatResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks the group's coordinator."""
    message = request.message
    command = Heartbeat(
        reply_to=node.groups.wait_for(lambda result: _answer(request, result)),
        group_id=message.group_id,
        generation=message.generation_id,
        member_id=message.member_id,
        instance_id=getattr(message, "group_instance_id", None),
    )
    node.groups.ask(message.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, HeartbeatResult)
    out = Packer(is_flexible(request.key, request.version))
    if request.version >= 1:
        out.int32(NO_THROTTLE_MS)
    request.reply_body([out.int16(result.error).end().data])


API = Api(key=12, versions=range(5), handle=handle)
