"""A JoinGroup request (11), v0-9, from its bytes. What is in it, and what it means, is not judged here.

v1+ has the rebalance timeout, v5+ the instance id, v8+ the reason; v6+ is flexible.
"""

from typing import NamedTuple

from ottla.core.wire.fields import COMPACT, PLAIN, bounded, int32


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
