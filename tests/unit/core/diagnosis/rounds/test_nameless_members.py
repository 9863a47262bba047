import pytest

from ottla.core.diagnosis.rounds.identity import Identity
from ottla.core.diagnosis.rounds.nameless_members import KEPT_MAX, RETURN_WITHIN_MS, SESSION_MAX_MS, NamelessMembers
from ottla.core.diagnosis.rounds.round import Arrival, Departure


def gone(at_ms: int, role: str = "left") -> Departure:
    return Departure(who=Identity(f"A{at_ms}"), at_ms=at_ms, clock="c", role=role)


def came(at_ms: int) -> Arrival:
    return Arrival(who=Identity(f"B{at_ms}"), at_ms=at_ms, clock="c")


def test_one_goes_and_another_comes_within_seconds() -> None:
    members, departure, arrival = NamelessMembers(), gone(0), came(RETURN_WITHIN_MS)
    members.add(departure)
    members.pair(arrival)
    assert arrival.loss is departure
    assert (departure.is_nameless_pair, departure.returned_after_ms) == (True, RETURN_WITHIN_MS)


def test_later_ones_are_new() -> None:
    members, arrival = NamelessMembers(), came(RETURN_WITHIN_MS + 1)
    members.add(gone(0))
    members.pair(arrival)
    assert arrival.loss is None


def test_few_are_kept() -> None:
    members = NamelessMembers()
    departures = [gone(at_ms) for at_ms in range(KEPT_MAX + 1)]
    for departure in departures:
        members.add(departure)
    members.pair(came(100))
    assert [departure.returned is None for departure in departures[:3]] == [True, False, True]


@pytest.mark.parametrize(
    ("after_ms", "role", "is_possible"), [(40_000, "expired", True), (40_000, "left", False), (SESSION_MAX_MS + 1, "expired", False)]
)
def test_one_whose_session_expires_may_have_been_replaced_by_one_that_came_before(after_ms: int, role: str, is_possible: bool) -> None:
    members, arrival, departure = NamelessMembers(), came(0), gone(after_ms, role)
    members.pair(arrival)
    members.add(departure)
    assert (departure.may_be_replaced, arrival.may_replace) == (is_possible, is_possible)
    assert departure.returned is None
