"""SyncGroup (14), v0-5: the leader hands in the plan, everybody gets its own part.

Version notes: v3+ static members; v5+ names the protocol, which must be the group's (KIP-559): without it, INCONSISTENT_GROUP_PROTOCOL.
"""

from functools import lru_cache, partial
from typing import TYPE_CHECKING

from ottla.broker.api import NO_THROTTLE_MS, Api, Request
from ottla.broker.messages import is_flexible
from ottla.broker.pack import Packer
from ottla.broker.requests.sync_group import read_sync_group
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import SyncGroup
from ottla.core.groups.effects import Result, SyncResult

if TYPE_CHECKING:
    from ottla.broker.node import Node


def handle(node: "Node", request: Request) -> None:
    """Asks the group's coordinator."""
    asked = read_sync_group(request.data, request.body_at, request.version)
    if request.version >= 5 and (asked.protocol_type is None or asked.protocol_name is None):
        _answer(request, SyncResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    command = SyncGroup(
        reply_to=node.groups.wait_for(partial(_answer, request), request),
        group_id=asked.group_id,
        generation=asked.generation,
        member_id=asked.member_id,
        instance_id=asked.instance_id,
        protocol_type=asked.protocol_type,
        protocol_name=asked.protocol_name,
        assignments=asked.assignments,
    )
    node.groups.ask(asked.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, SyncResult)
    out = Packer(is_flexible(request.key, request.version))
    out.raw(_head(request.version, result.error, result.protocol_type, result.protocol_name))
    request.reply_bytes(out.octets(result.assignment).end().data)


@lru_cache(maxsize=64)
def _head(version: int, error: int, protocol_type: str | None, protocol_name: str | None) -> bytes:
    """What all members of a generation are told alike."""
    out = Packer(is_flexible(14, version))
    if version >= 1:
        out.int32(NO_THROTTLE_MS)
    out.int16(error)
    if version >= 5:
        out.nullable_string(protocol_type).nullable_string(protocol_name)
    return bytes(out.data)


API = Api(key=14, versions=range(6), handle=handle, decodes_itself=True)
