from typing import Any

import pytest

from ottla.history.rounds.changes import Role
from ottla.history.rounds.identity import Identity
from ottla.history.rounds.round import Departure
from ottla.history.verdicts import departure_conditions as conditions

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
