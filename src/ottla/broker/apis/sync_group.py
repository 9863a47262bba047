"""SyncGroup (14), v0-5: the leader sends the assignment, every member receives its part.

Version notes: v3+ static members; v5+ carries the protocol, which must be the group's (KIP-559), or else INCONSISTENT_GROUP_PROTOCOL.
"""

from functools import lru_cache, partial
from typing import NamedTuple

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.groups.commands import Result, SyncGroup, SyncResult
from ottla.protocol.errors import ErrorCode
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import is_flexible
from ottla.protocol.wire.primitives import COMPACT, PLAIN, Writer, bounded, int32
from ottla.security.access import Operation, ResourceType


class SyncGroupRequest(NamedTuple):
    """Its fields in their order; what a version lacks is None. `assignments` holds member ids and their parts of the plan."""

    group_id: str
    generation: int
    member_id: str
    instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, bytes], ...]


@bounded
def read_sync_group(data: bytes, at: int, version: int) -> tuple[SyncGroupRequest, int]:
    """The request whose body begins at `at`. Raises PeerError."""
    fields = COMPACT if version >= 4 else PLAIN
    text, octets, end = fields.text, fields.octets, fields.end
    group_id, at = text(data, at)
    generation, at = int32(data, at)
    member_id, at = text(data, at)
    instance_id = protocol_type = protocol_name = None
    if version >= 3:
        instance_id, at = fields.nullable_text(data, at)
    if version >= 5:
        protocol_type, at = fields.nullable_text(data, at)
        protocol_name, at = fields.nullable_text(data, at)
    count, at = fields.length(data, at)
    assignments = []
    for _ in range(count):
        assigned_id, at = text(data, at)
        assignment, at = octets(data, at)
        at = end(data, at)
        assignments.append((assigned_id, assignment))
    request = SyncGroupRequest(group_id, generation, member_id, instance_id, protocol_type, protocol_name, tuple(assignments))
    return request, end(data, at)


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


def _refuse(request: Request, error: ErrorCode) -> None:
    _answer(request, SyncResult(error=error))


API = Api(
    key=ApiKey.SYNC_GROUP,
    versions=range(6),
    handle=handle,
    decodes_itself=True,
    access=(Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_refuse),),
)
