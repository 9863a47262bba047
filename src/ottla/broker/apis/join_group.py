"""JoinGroup (11), v0-9: joins a group or its next rebalance; the request may be parked until the other members join.

Version notes: v0 has no rebalance timeout (the session's is used); v4+ returns a new member's id first (KIP-394); v5+ static members
(KIP-345); v7+ the protocol type, and a null protocol name (KIP-559); v8+ the client's reason (KIP-800); v9+ skip-assignment (KIP-814).
"""

import uuid
from functools import lru_cache, partial
from typing import NamedTuple

from ottla.broker.coordination.groups import GroupRouter
from ottla.broker.network.dispatch import MissingFeatures
from ottla.broker.network.request import NO_THROTTLE_MS, Access, Api, Request
from ottla.groups.commands import JoinGroup, JoinResult, Result
from ottla.protocol.errors import ErrorCode
from ottla.protocol.record_codec import uuid_text
from ottla.protocol.wire.api_keys import ApiKey
from ottla.protocol.wire.messages import is_flexible
from ottla.protocol.wire.primitives import COMPACT, PLAIN, Writer, bounded, int32
from ottla.security.access import Operation, ResourceType


class JoinGroupRequest(NamedTuple):
    """Its fields in their order; what a version lacks is None, but for the rebalance timeout, which is the session's then."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, bytes], ...]
    reason: str | None


@bounded
def read_join_group(data: bytes, at: int, version: int) -> tuple[JoinGroupRequest, int]:
    """The request whose body begins at `at`. Raises PeerError."""
    fields = COMPACT if version >= 6 else PLAIN
    group_id, at = fields.text(data, at)
    session_timeout_ms, at = int32(data, at)
    rebalance_timeout_ms = session_timeout_ms
    if version >= 1:
        rebalance_timeout_ms, at = int32(data, at)
    member_id, at = fields.text(data, at)
    instance_id = reason = None
    if version >= 5:
        instance_id, at = fields.nullable_text(data, at)
    protocol_type, at = fields.text(data, at)
    count, at = fields.length(data, at)
    protocols = []
    for _ in range(count):
        name, at = fields.text(data, at)
        metadata, at = fields.octets(data, at)
        at = fields.end(data, at)
        protocols.append((name, metadata))
    if version >= 8:
        reason, at = fields.nullable_text(data, at)
    request = JoinGroupRequest(
        group_id, session_timeout_ms, rebalance_timeout_ms, member_id, instance_id, protocol_type, tuple(protocols), reason
    )
    return request, fields.end(data, at)


def handle(request: Request, *, groups: GroupRouter, missing_features: MissingFeatures) -> None:
    """Ask the group's coordinator."""
    version = request.version
    asked = read_join_group(request.data, request.body_at, version)
    client_id, session = request.client_id or "", request.session
    new_id = None if asked.member_id else uuid.uuid4()

    def answer(result: Result) -> None:
        if isinstance(result, JoinResult) and result.error == ErrorCode.INVALID_SESSION_TIMEOUT:
            # librdkafka joins again and again, and says nothing.
            missing_features.report(
                f"a session timeout of {asked.session_timeout_ms} ms in a group, which group.min.session.timeout.ms and"
                " group.max.session.timeout.ms do not allow: it does not become a member",
                request.client_id,
                session,
            )
        _answer(request, result)

    command = JoinGroup(
        reply_to=groups.expect_reply(answer, request),
        group_id=asked.group_id,
        member_id=asked.member_id,
        instance_id=asked.instance_id,
        client_id=client_id,
        client_host=session.client_host,
        client_port=session.client_port,
        session_timeout_ms=asked.session_timeout_ms,
        rebalance_timeout_ms=asked.rebalance_timeout_ms,
        protocol_type=asked.protocol_type,
        protocols=asked.protocols,
        reason=asked.reason,
        require_known_member_id=version >= 4,
        supports_skip_assignment=version >= 9,
        new_member_id="" if new_id is None else f"{client_id if asked.instance_id is None else asked.instance_id}-{new_id}",
        new_uuid="" if new_id is None else uuid_text(new_id.bytes),
        may_describe=None if session.authorizer is None else partial(session.may, Operation.DESCRIBE, ResourceType.TOPIC),
    )
    groups.run(asked.group_id, command)


def _answer(request: Request, result: Result) -> None:
    assert isinstance(result, JoinResult)
    version = request.version
    names = result.protocol_type, result.protocol_name, result.leader
    out = Writer(is_flexible(request.key, version))
    out.raw(_head(version, result.error, result.generation, *names, result.skip_assignment))
    out.string(result.member_id).array(len(result.members))
    for member in result.members:
        out.string(member.member_id)
        if version >= 5:
            out.nullable_string(member.instance_id)
        out.octets(member.metadata).end()
    request.reply_bytes(out.end().data)


@lru_cache(maxsize=64)
def _head(
    version: int, error: int, generation: int, protocol_type: str | None, protocol_name: str | None, leader: str, skips: bool
) -> bytes:
    """The part of the response that all members of a generation share."""
    out = Writer(is_flexible(ApiKey.JOIN_GROUP, version))
    if version >= 2:
        out.int32(NO_THROTTLE_MS)
    out.int16(error).int32(generation)
    if version >= 7:
        out.nullable_string(protocol_type).nullable_string(protocol_name)
    else:
        out.string(protocol_name or "")
    out.string(leader)
    if version >= 9:
        out.boolean(skips)
    return bytes(out.data)


def _refuse(request: Request, error: ErrorCode) -> None:
    _answer(request, JoinResult(error=error, member_id=""))


API = Api(
    key=ApiKey.JOIN_GROUP,
    versions=range(10),
    handle=handle,
    decodes_itself=True,
    access=(Access(Operation.READ, ResourceType.GROUP, "group_id", refuse=_refuse),),
)
