"""SyncGroup (14), v0-5: the leader sends the assignment, every member receives its part.

Version notes: v3+ static members; v5+ carries the protocol, which must be the group's (KIP-559), or else INCONSISTENT_GROUP_PROTOCOL.
"""

from functools import lru_cache, partial

from ottla.broker.coordination.group_router import GroupRouter
from ottla.broker.protocol.api import Api
from ottla.broker.protocol.common_fields import NO_THROTTLE_MS
from ottla.broker.protocol.request import Request
from ottla.broker.protocol.requests.sync_group import read_sync_group
from ottla.core.errors import ErrorCode
from ottla.core.groups.commands import SyncGroup
from ottla.core.groups.effects import Result, SyncResult
from ottla.core.wire.api_keys import ApiKey
from ottla.core.wire.messages import is_flexible
from ottla.core.wire.writer import Writer


def handle(request: Request, *, groups: GroupRouter) -> None:
    """Ask the group's coordinator."""
    asked = read_sync_group(request.data, request.body_at, request.version)
    if request.version >= 5 and (asked.protocol_type is None or asked.protocol_name is None):
        _answer(request, SyncResult(error=ErrorCode.INCONSISTENT_GROUP_PROTOCOL))
        return
    command = SyncGroup(
        reply_to=groups.expect_reply(partial(_answer, request), request),
        group_id=asked.group_id,
        generation=asked.generation,
        member_id=asked.member_id,
        instance_id=asked.instance_id,
        protocol_type=asked.protocol_type,
        protocol_name=asked.protocol_name,
        assignments=asked.assignments,
    )
    groups.run(asked.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, SyncResult)
    out = Writer(is_flexible(request.key, request.version))
    out.raw(_head(request.version, result.error, result.protocol_type, result.protocol_name))
    request.reply_bytes(out.octets(result.assignment).end().data)


@lru_cache(maxsize=64)
def _head(version: int, error: int, protocol_type: str | None, protocol_name: str | None) -> bytes:
    """The part of the response that all members of a generation share."""
    out = Writer(is_flexible(ApiKey.SYNC_GROUP, version))
    if version >= 1:
        out.int32(NO_THROTTLE_MS)
    out.int16(error)
    if version >= 5:
        out.nullable_string(protocol_type).nullable_string(protocol_name)
    return bytes(out.data)


API = Api(key=ApiKey.SYNC_GROUP, versions=range(6), handle=handle, decodes_itself=True)
