import pytest

from ottla.history.rounds.changes import Role, plain_reason, read_changes, role_of
from ottla.history.rounds.identity import KnownMembers
from ottla.history.rounds.merging import by_clock, merge
from ottla.history.rounds.round import Round
from ottla.history.sources.model import Kind
from tests.support.kit.evidence import EvidenceLog


def only_round(log: EvidenceLog) -> Round:
    known = KnownMembers()
    known.learn(log.lines)
    (each,) = merge("g", by_clock(log.lines))
    read_changes(each, known)
    return each


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({"reason": "Adding new member m; client reason: encountered UNKNOWN_MEMBER_ID", "candidates": ("EXPIRE_HEARTBEAT",)}, Role.JOINED),
        ({"reason": "explicit `LeaveGroup` request for (m) members."}, Role.LEFT),
        ({"reason": "removing member m on LeaveGroup"}, Role.LEFT),
        ({"reason": "Removing member m on heartbeat expiration.", "trigger": "EXPIRE_HEARTBEAT"}, Role.EXPIRED),
        ({"reason": "Removing [m] on pending sync request expiration", "trigger": "SYNC_TIMEOUT"}, Role.LATE_TO_SYNC),
        ({"reason": "Leader m re-joining group during Stable; client reason: x"}, Role.REJOINED),
        ({"trigger": "JOIN_TIMEOUT"}, Role.LATE_TO_JOIN),
        ({"candidates": ("LEAVE_CLOSE", "POLL_TIMEOUT")}, Role.LEFT),
        ({}, Role.OTHER),
    ],
)
def test_the_role_is_read_from_the_reason_or_the_code(fields: dict[str, object], role: Role) -> None:
    assert role_of(EvidenceLog().add(Kind.TRIGGER, **fields)) is role


def test_several_lines_about_a_member_are_one_departure() -> None:
    log = EvidenceLog()
    log.leave("w1-id", 3, client_reason="the consumer is being closed", client_id="w1")
    log.add(Kind.MEMBER_JOINED, 10, member_id="n")
    log.rebalance(4, count=2)
    each = only_round(log)
    (departure,), (arrival,) = each.departures, each.arrivals
    assert (departure.role, departure.client_reason, departure.who.client_id) == (Role.LEFT, "the consumer is being closed", "w1")
    assert arrival.who.member_id == "n"


def test_a_trigger_for_several_members_adds_none() -> None:
    log = EvidenceLog()
    for name in ("a", "b"):
        log.add(Kind.MEMBER_LEFT, 5, member_id=name)
    log.add(Kind.TRIGGER, generation=3, reason="explicit `LeaveGroup` request for (a, b) members.")
    log.rebalance(4)
    assert [departure.who.member_id for departure in only_round(log).departures] == ["a", "b"]


def test_no_reason_differs_from_an_unknown_one() -> None:
    assert plain_reason("not provided") == ""
    assert plain_reason(None) is None
