"""A Heartbeat request (12), v0-4, from its bytes. What is in it, and what it means, is not judged here.

v3+ has the instance id; v4+ is flexible.
"""

from typing import NamedTuple

from ottla.core.wire.fields import COMPACT, PLAIN, bounded, int32


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
