"""Encodes a group event as the JSON record that is published: what `json.dumps` makes of `GroupEvent.to_dict`.

A rebalance publishes all members twice. In a group of thousands their JSON is assembled from text instead of from objects.
"""

import json
from functools import lru_cache
from json.encoder import encode_basestring_ascii
from typing import Final

from ottla.core.groups.event_members import EventMembers, MemberRow, readable_assignment
from ottla.core.model import EventMember, GroupEvent

_CACHED_ASSIGNMENTS_MAX: Final = 8_192
_CACHED_BYTES_MAX: Final = 512
"""Small assignments are cached, since they repeat from rebalance to rebalance."""


def event_json(event: GroupEvent) -> bytes:
    """Encode the event as a record's value."""
    members = event.members
    if isinstance(members, EventMembers):
        written = ",".join([_row(members.protocol_type, row) for row in members.rows])
    else:
        written = ",".join([_dumps(_plain(member)) for member in members])
    head = {
        "at_ms": event.at_ms,
        "group": event.group,
        "kind": event.kind,
        "generation": event.generation,
        "state_from": event.state_from,
        "state_to": event.state_to,
        "trigger": event.trigger,
        "coalesced": event.coalesced,
        "reason": event.reason,
        "member_id": event.member_id,
        "instance_id": event.instance_id,
        "client_id": event.client_id,
        "client_host": event.client_host,
        "client_reason": event.client_reason,
        "protocol": event.protocol,
        "leader": event.leader,
    }
    return f'{_dumps(head)[:-1]},"members":[{written}],"evidence":{_dumps(dict(event.evidence))}}}'.encode()


_dumps = json.JSONEncoder(separators=(",", ":")).encode


def _plain(member: EventMember) -> dict[str, object]:
    return {name: getattr(member, name) for name in EventMember.__slots__}


def _row(protocol_type: str | None, row: MemberRow) -> str:
    quoted = encode_basestring_ascii
    member_id, instance_id, client_id, client_host, session_timeout_ms, rebalance_timeout_ms, assignment = row
    instance = "null" if instance_id is None else quoted(instance_id)
    if not assignment:
        assigned = "{}"
    else:
        encode = _assignment if len(assignment) <= _CACHED_BYTES_MAX else _assignment.__wrapped__
        assigned = encode(protocol_type, assignment)
    return (
        f'{{"member_id":{quoted(member_id)},"instance_id":{instance},"client_id":{quoted(client_id)},'
        f'"client_host":{quoted(client_host)},"session_timeout_ms":{session_timeout_ms},'
        f'"rebalance_timeout_ms":{rebalance_timeout_ms},"assignment":{assigned}}}'
    )


@lru_cache(maxsize=_CACHED_ASSIGNMENTS_MAX)
def _assignment(protocol_type: str | None, assignment: bytes) -> str:
    return _dumps(dict(readable_assignment(protocol_type, assignment)))
