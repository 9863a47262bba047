"""Members that went."""

from typing import Any

import pytest

from ottla.history.processes import Identity
from ottla.history.rounds.membership import Role
from ottla.history.rounds.round import Arrival, Departure
from ottla.history.sources.evidence import Cause, Kind, Source
from ottla.history.sources.outages import LOST_IN_GROUP
from ottla.history.verdicts import departure_rules as conditions
from ottla.history.verdicts.departure_rules import ANY_LOSS, AWAY, BACK, DEPARTURE_RULES, OPEN, SILENT
from ottla.history.verdicts.verdict import findings_of
from tests.support.kit.evidence import EvidenceLog

STATIC = Identity("m1", "i", "w1")
TIMEOUTS = {"session_timeout_ms": 6_000, "rebalance_timeout_ms": 8_000, "commit_interval_ms": 500}
BY_GAP = (
    conditions.committed_just_before,
    conditions.silent_for_a_session,
    conditions.silent_for_a_poll_interval,
)


def departure(**fields: Any) -> Departure:
    return Departure(**({"who": Identity("m1", None, "w1"), "at_ms": 0, "clock": "c", "role": Role.LEFT, "client_reason": ""} | fields))


@pytest.mark.parametrize(
    ("gap_ms", "holding"), [(0, 0), (2_000, 0), (3_000, None), (5_800, 1), (7_000, 1), (8_000, 2), (10_000, 2), (20_000, None)]
)
def test_the_gap_since_the_last_commit_fits_one_timeout_or_none(gap_ms: int, holding: int | None) -> None:
    subject = departure(commit_gap_ms=gap_ms, **TIMEOUTS)
    assert [at for at, holds in enumerate(BY_GAP) if holds(subject)] == ([] if holding is None else [holding])


def test_commits_just_before_say_nothing_where_the_session_is_as_short() -> None:
    assert not conditions.committed_just_before(departure(commit_gap_ms=1_500, session_timeout_ms=2_000))


def test_without_timeouts_or_commits_nothing_is_said() -> None:
    assert not any(holds(departure()) for holds in BY_GAP)


def test_a_reason_is_the_clients_an_administrators_or_none() -> None:
    assert conditions.left(departure())
    assert conditions.says_something_else(departure(client_reason="drain"))
    assert not conditions.says_something_else(departure(client_reason="the consumer is being closed"))


def test_an_expired_session_is_not_counted_again_as_silence() -> None:
    silent = {"commit_gap_ms": 6_400, "session_timeout_ms": 6_000, "rebalance_timeout_ms": 60_000}
    gone = {role: Departure(who=Identity("m1"), at_ms=0, clock="c", role=role, **silent) for role in (Role.LISTED, Role.EXPIRED)}
    assert [conditions.silent_for_a_session(each) for each in gone.values()] == [True, False]


def test_a_return_excludes_no_cause_that_an_absence_allows() -> None:
    assert set(BACK) == set(AWAY) >= set(OPEN)
    assert BACK[Cause.RESTART_DYNAMIC] > AWAY[Cause.RESTART_DYNAMIC]
    assert AWAY[Cause.LEAVE_CLOSE] > BACK[Cause.LEAVE_CLOSE]


def test_silence_is_one_of_the_losses() -> None:
    assert set(SILENT) <= set(ANY_LOSS)


def arrival(member_id: str = "m2") -> Arrival:
    return Arrival(who=Identity(member_id, None, "w1"), at_ms=5, clock="c")


REVOKES = EvidenceLog(Source.OFFSETS_TOPIC).add(Kind.MEMBER_LEFT, candidates=("POLL_TIMEOUT", "JOIN_TIMEOUT"))
HOLDS: dict[str, Departure] = {
    "left without a reason": departure(),
    "closed": departure(client_reason="the consumer is being closed"),
    "unsubscribed": departure(client_reason="the consumer unsubscribed from all topics"),
    "poll timeout": departure(client_reason="consumer poll timeout has expired."),
    "removed by an administrator": departure(client_reason="member was removed by an admin"),
    "a free-text reason": departure(client_reason="drain"),
    "session expired": departure(role=Role.EXPIRED),
    "session of a static member expired": departure(role=Role.EXPIRED, who=STATIC),
    "a static member expired after others had closed": departure(role=Role.EXPIRED, who=STATIC, closed_before=[departure()]),
    "all static members of a group expired in one instant": departure(
        role=Role.EXPIRED, who=STATIC, went_with_all=True, figures={LOST_IN_GROUP: 3}
    ),
    "a static member had closed": departure(role=Role.EXPIRED, who=STATIC, had_left_for_now=True),
    "session expired, KIP-848": departure(role=Role.EXPIRED, is_consumer_type=True),
    "did not join again": departure(role=Role.LATE_TO_JOIN),
    "did not sync": departure(role=Role.LATE_TO_SYNC),
    "not listed any more": departure(role=""),
    "committed just before": departure(commit_gap_ms=400, **TIMEOUTS),
    "silent for a session timeout": departure(role=Role.REMOVED, commit_gap_ms=6_400, **TIMEOUTS),
    "silent for a poll interval": departure(commit_gap_ms=9_400, **TIMEOUTS),
    "silent, and replaced in the same generation": departure(role="", returned_at_once=True, commit_gap_ms=6_000, **TIMEOUTS),
    "gone one rebalance timeout after it joined": departure(role="", present_ms=8_500, **TIMEOUTS),
    "silent while others joined": departure(role="", is_with_others=True, commit_gap_ms=6_000, **TIMEOUTS),
    "all went at once": departure(role="", went_with_all=True),
    "the client came back": departure(returned=arrival()),
    "a client of the same name came": departure(returned=arrival(), is_shared_name=True),
    "another member came": departure(returned=arrival(), is_nameless_pair=True),
    "the client stayed away": departure(),
    "the process lived on": departure(returned=arrival("m1"), is_consumer_type=True),
    "the same id is listed again": departure(role="", returned=arrival("m1"), is_consumer_type=True),
    "it had not revoked its partitions": departure(role="", is_consumer_type=True, items=[REVOKES]),
    "came back on its connection": departure(returned=arrival(), is_same_connection=True),
    "came back on another connection": departure(returned=arrival(), is_same_connection=False),
    "left on its own connection": departure(is_left_by_other=False),
    "removed from another connection": departure(is_left_by_other=True),
    "silent, and back on its connection": departure(role=Role.EXPIRED, returned=arrival(), is_same_connection=True),
    "silent, and back on another connection": departure(role=Role.EXPIRED, returned=arrival(), is_same_connection=False),
    "its successor was there first": departure(is_replaced_before=True, returned=arrival()),
    "another member had come": departure(role=Role.EXPIRED, is_consumer_type=True, may_be_replaced=True),
    "its log has no poll timeout": departure(unsaid=frozenset({Cause.POLL_TIMEOUT})),
    "its log does not say that it leaves": departure(unsaid=frozenset({Cause.LEAVE_CLOSE})),
    "it did not leave": departure(role="", unsaid=frozenset({Cause.LEAVE_CLOSE})),
    "the assignor changed with it": departure(is_protocol_changed=True),
}
BLAND = departure(role=Role.OTHER, client_reason=None, returned=arrival(), is_shared_name=True)


def names(subject: Departure) -> list[str]:
    return [finding.name for finding in findings_of(DEPARTURE_RULES, subject)]


def test_every_rule_has_its_example() -> None:
    assert set(HOLDS) == {rule.name for rule in DEPARTURE_RULES}


@pytest.mark.parametrize("name", HOLDS)
def test_the_rule_holds_for_its_example_and_for_hardly_any_other(name: str) -> None:
    assert name in names(HOLDS[name])
    assert name == "a client of the same name came" or name not in names(BLAND)
