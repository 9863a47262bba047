"""Members of an event: created on demand, as of the time of the event."""

from ottla.core.groups.event_members import EventMembers, readable_assignment
from ottla.core.model import EventMember
from ottla.testing.kit.consumer_protocol import encode_assignment

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
