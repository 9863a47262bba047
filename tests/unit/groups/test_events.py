"""Events of groups: causes, the event of a change, the members as of its time, and its JSON."""

import json
from typing import Any

import pytest

from ottla.groups.classic.group import ClassicGroup
from ottla.groups.events import EventMember, EventMembers, GroupEvent, TriggerCode, event_json, readable_assignment, reason_or_default
from ottla.groups.group import CommandContext, CoordinatorState
from ottla.groups.settings import GroupSettings
from tests.support.kit.consumer_protocol import encode_assignment


def test_reasons_and_causes() -> None:
    assert reason_or_default(None) == reason_or_default("") == "not provided"
    assert all(code.value == code.name for code in TriggerCode)


def test_a_change_has_the_groups_present_fields() -> None:
    context, group = CommandContext(CoordinatorState(GroupSettings()), 5, 7), ClassicGroup("g", now_ms=0)
    group.generation, group.protocol, group.leader = 3, "range", "m1"
    context.emit_change(group, "emptied", "PreparingRebalance", "Empty", evidence={"count": 2}, reason="why")
    (event,) = context.events
    assert (event.at_ms, event.group, event.kind, event.generation) == (5, "g", "emptied", 3)
    assert (event.state_from, event.state_to, event.protocol, event.leader) == ("PreparingRebalance", "Empty", "range", "m1")
    assert (event.evidence, event.reason, event.trigger) == ({"count": 2}, "why", None)


ROW = ("m1", "i1", "c1", "/h", 10, 20, encode_assignment({"flights": [1, 2]}))
NAMES = {"member_id": "m1", "instance_id": "i1", "client_id": "c1", "client_host": "/h"}


def test_a_row_is_a_member_with_its_assignment() -> None:
    members = EventMembers("consumer", [ROW])
    assert len(members) == 1
    assert members == (EventMember(**NAMES, session_timeout_ms=10, rebalance_timeout_ms=20, assignment={"flights": (1, 2)}),)
    assert members[0] is members[0], "made once"


def test_an_assignment_that_cannot_be_decoded_is_empty() -> None:
    assert EventMembers("connect", [ROW])[0].assignment == {}
    assert EventMembers("consumer", [(*ROW[:-1], b"other")])[0].assignment == {}
    assert EventMembers("consumer", [(*ROW[:-1], b"")])[0].assignment == {}


def test_other_protocols_are_not_decoded() -> None:
    assignment = encode_assignment({"flights": [1]})
    assert readable_assignment("consumer", assignment) == {"flights": (1,)}
    assert readable_assignment("connect", assignment) == {}
    assert readable_assignment("consumer", b"\x00") == {}


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
    EventMembers("consumer", [("m", None, "c", "/h", 1, 2, {"flights": [1, 2], ESCAPED: []}), ("n", "i", "c", "h", 1, 2, {})]),
    EventMembers("consumer", [("m", None, "c", "/h", 1, 2, encode_assignment({"t" * 100: list(range(1000))}))]),
]


@pytest.mark.parametrize("members", MEMBERS)
@pytest.mark.parametrize("rest", [{}, {"trigger": "LEAVE", "coalesced": True, "reason": ESCAPED, "evidence": {"a_ms": 1, "b": 2}}])
def test_it_is_the_events_dictionary(members: Any, rest: dict[str, Any]) -> None:
    event = GroupEvent(**HEAD, **rest, members=members)
    for _ in range(2):
        assert event_json(event) == json.dumps(event.to_dict(), separators=(",", ":")).encode()
