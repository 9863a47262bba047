"""JoinGroup (11), v0-9: enters a group, or takes part in its next round; the answer may wait for the others.

Version notes: v0 has no rebalance timeout (the session's is used); v4+ tells a new member its id first (KIP-394); v5+ static members
(KIP-345); v7+ the protocol type, and a null protocol name (KIP-559); v8+ the client's reason (KIP-800); v9+ skip-assignment (KIP-814).
"""

import uuid
from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request, milliseconds
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.core.groups.commands import JoinGroup
from ottla.core.groups.effects import JoinResult, Result

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks the group's coordinator."""
    message = request.message
    session_timeout_ms = milliseconds(message.session_timeout)
    instance_id = getattr(message, "group_instance_id", None)
    client_id = request.client_id or ""
    command = JoinGroup(
        reply_to=node.groups.wait_for(lambda result: _answer(request, result)),
        group_id=message.group_id,
        member_id=message.member_id,
        instance_id=instance_id,
        client_id=client_id,
        client_host=request.client_host,
        session_timeout_ms=session_timeout_ms,
        rebalance_timeout_ms=milliseconds(message.rebalance_timeout) if request.version >= 1 else session_timeout_ms,
        protocol_type=message.protocol_type,
        protocols=tuple((protocol.name, protocol.metadata) for protocol in message.protocols),
        reason=getattr(message, "reason", None),
        require_known_member_id=request.version >= 4,
        supports_skip_assignment=request.version >= 9,
        new_member_id=f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}",
    )
    node.groups.ask(message.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, JoinResult)
    version = request.version
    out = Packer(is_flexible(request.key, version))
    if version >= 2:
        out.int32(NO_THROTTLE_MS)
    out.int16(result.error).int32(result.generation)
    if version >= 7:
        out.nullable_string(result.protocol_type).nullable_string(result.protocol_name)
    else:
        out.string(result.protocol_name or "")
    out.string(result.leader)
    if version >= 9:
        out.boolean(result.skip_assignment)
    out.string(result.member_id).array(len(result.members))
    for member in result.members:
        out.string(member.member_id)
        if version >= 5:
            out.nullable_string(member.instance_id)
        out.octets(member.metadata).end()
    request.reply_body([out.end().data])


API = Api(key=11, versions=range(10), handle=handle)
