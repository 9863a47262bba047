"""Members of an event: made when somebody looks, and what they were when it was told."""

from ottla.core.groups.event_members import EventMembers
from ottla.core.model import EventMember
from ottla.testing.sim_protocol import encode_assignment

ROW = ("m1", "i1", "c1", "/h", 10, 20, encode_assignment({"flights": [1, 2]}))
NAMES = {"member_id": "m1", "instance_id": "i1", "client_id": "c1", "client_host": "/h"}


def test_a_row_is_a_member_with_its_plan() -> None:
    members = EventMembers("consumer", [ROW])
    assert len(members) == 1
    assert members == (EventMember(**NAMES, session_timeout_ms=10, rebalance_timeout_ms=20, assignment={"flights": (1, 2)}),)
    assert members[0] is members[0], "made once"


def test_a_plan_that_cannot_be_read_shows_nothing() -> None:
    assert EventMembers("connect", [ROW])[0].assignment == {}
    assert EventMembers("consumer", [(*ROW[:-1], b"odd")])[0].assignment == {}
    assert EventMembers("consumer", [(*ROW[:-1], b"")])[0].assignment == {}
