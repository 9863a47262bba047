"""The JSON of a group event: exactly what json.dumps makes of its dictionary."""

import json
from typing import Any

import pytest

from ottla.broker.coordination.event_json import event_json
from ottla.core.groups.event_members import EventMembers
from ottla.core.model import EventMember, GroupEvent
from ottla.testing.kit.consumer_protocol import encode_assignment

ESCAPED = 'ü"\\\n\u2028'
HEAD: dict[str, Any] = {"at_ms": 1, "group": ESCAPED, "kind": "sync_completed", "generation": 3, "state_from": "A", "state_to": "B"}
ASSIGNMENT = encode_assignment({"flights": [1, 2], ESCAPED: []})
MEMBERS = [
    (),
    (EventMember(member_id="m", instance_id=None, client_id="c", client_host="/h", session_timeout_ms=1, rebalance_timeout_ms=2),),
    EventMembers(
        "consumer",
        [(ESCAPED, None, "c", "/h", 1, 2, ASSIGNMENT), ("m", ESCAPED, ESCAPED, ESCAPED, 1, 2, b""), ("n", "i", "c", "h", 1, 2, b"?")],
    ),
    EventMembers("connect", [("m", None, "c", "/h", 1, 2, ASSIGNMENT)]),
    EventMembers("consumer", [("m", None, "c", "/h", 1, 2, encode_assignment({"t" * 100: list(range(1000))}))]),
]


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("rest", [{}, {"trigger": "LEAVE", "coalesced": True, "reason": ESCAPED, "evidence": {"a_ms": 1, "b": 2}}])
def test_it_is_the_events_dictionary(members: Any, rest: dict[str, Any]) -> None:
    event = GroupEvent(**HEAD, **rest, members=members)
    for _ in range(2):
        assert event_json(event) == json.dumps(event.to_dict(), separators=(",", ":")).encode()
