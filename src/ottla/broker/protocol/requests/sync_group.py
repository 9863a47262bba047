"""A SyncGroup request (14), v0-5, from its bytes. What is in it, and what it means, is not judged here.

v3+ has the instance id; v4+ is flexible; v5+ names the protocol.
"""

from typing import NamedTuple

from ottla.core.wire.fields import COMPACT, PLAIN, bounded, int32


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
