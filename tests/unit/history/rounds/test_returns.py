"""Members that went, paired with the clients that came back."""

import pytest

from ottla.history.processes import Identity
from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.rounds.returns import KEPT_MAX, NAMELESS_WITHIN_MS, RETURN_WITHIN_MS, SESSION_MAX_MS, NamelessMembers
from ottla.history.rounds.round import Arrival, Departure
from ottla.history.sources.evidence import Source
from tests.support.kit.evidence import EvidenceLog


def test_the_same_client_id_within_minutes_came_back() -> None:
    log = EvidenceLog()
    log.leave("m1", 3, client_id="w1")
    log.rebalance(4, count=1)
    log.join("m2", 4, after_ms=2_000, client_id="w1")
    log.rebalance(5, count=2)
    first, second = rounds_of_group("g", log.lines)
    (departure,), (arrival,) = first.departures, second.arrivals
    assert arrival.loss is departure
    assert departure.returned is arrival
    assert departure.returned_after_ms == 2_120
    assert not departure.is_shared_name


def test_another_client_or_one_after_minutes_did_not() -> None:
    for name, after_ms in (("w2", 2_000), ("w1", RETURN_WITHIN_MS + 1)):
        log = EvidenceLog()
        log.leave("m1", 3, client_id="w1")
        log.rebalance(4, count=1)
        log.join("m2", 4, after_ms=after_ms, client_id=name)
        log.rebalance(5, count=2)
        assert rounds_of_group("g", log.lines)[1].arrivals[0].loss is None


def test_a_return_in_the_same_rebalance() -> None:
    log = EvidenceLog()
    log.leave("m1", 3, client_id="w1")
    log.join("m2", 3, after_ms=800, client_id="w1", coalesced=True)
    log.rebalance(4, count=2)
    (only,) = rounds_of_group("g", log.lines)
    assert only.arrivals[0].loss is only.departures[0]
    assert only.departures[0].returned_after_ms == 800


def test_a_client_that_joined_before_its_former_self_was_removed() -> None:
    log = EvidenceLog()
    log.join("m1", 0, client_id="w1")
    log.rebalance(1, count=1)
    log.join("m2", 1, client_id="w1")
    log.expire("m1", 1, after_ms=4_000)
    log.rebalance(2, count=1)
    second = rounds_of_group("g", log.lines)[1]
    assert second.departures[0].is_replaced_before
    assert second.arrivals[0].replaces


def test_a_kip_848_member_is_known_by_its_id() -> None:
    log = EvidenceLog(group_type="consumer")
    log.leave("KfqTkGW8RvKSBcfw7XNo6A", 3)
    log.rebalance(4)
    log.join("KfqTkGW8RvKSBcfw7XNo6A", 4)
    log.rebalance(5)
    assert rounds_of_group("g", log.lines)[1].arrivals[0].loss is not None


def test_several_members_of_one_name_make_the_return_unsure() -> None:
    log = EvidenceLog()
    for generation, name in enumerate(("m1", "m2")):
        log.join(name, generation, client_id="rdkafka")
        log.rebalance(generation + 1, count=generation + 1)
    log.leave("m1", 2)
    log.rebalance(3, count=1)
    log.join("m3", 3, client_id="rdkafka")
    log.rebalance(4, count=2)
    assert rounds_of_group("g", log.lines)[2].departures[0].is_shared_name


def test_a_departure_ends_with_the_next_join_of_its_process() -> None:
    """A crash loop: two processes are started before the session of the first one ends; then the third is closed, and started again."""
    log = EvidenceLog()
    log.join("m0", 0, client_id="w1")
    log.rebalance(1, count=1)
    log.now_ms += 60_000
    log.join("m1", 1, client_id="w1")
    log.rebalance(2, count=2)
    log.join("m2", 2, client_id="w1", after_ms=15_000)
    log.rebalance(3, count=3)
    for generation, name in ((3, "m0"), (4, "m1")):
        log.expire(name, generation, client_id="w1", after_ms=15_000)
        log.rebalance(generation + 1, count=1)
    log.leave("m2", 5, client_id="w1", after_ms=90_000)
    log.rebalance(6, count=1)
    log.join("m3", 6, client_id="w1", after_ms=2_000)
    log.rebalance(7, count=1)
    departures = [departure for rebalance in rounds_of_group("g", log.lines) for departure in rebalance.departures]
    returns = [(each.who.member_id, each.returned and each.returned.who.member_id) for each in departures]
    assert returns == [("m0", "m1"), ("m1", "m2"), ("m2", "m3")]
    assert departures[-1].returned_after_ms == 2_120


def test_a_departure_of_an_earlier_life_is_no_longer_open() -> None:
    """The first return is in no source, as the coordinator that saw it had not written it."""
    log = EvidenceLog()
    log.leave("m1", 3, client_id="w1")
    log.rebalance(4, count=1)
    log.leave("m2", 4, client_id="w1", after_ms=100_000)
    log.rebalance(5, count=1)
    log.join("m3", 5, after_ms=2_000, client_id="w1")
    log.rebalance(6, count=2)
    first, second, _ = rounds_of_group("g", log.lines)
    assert (first.departures[0].returned, second.departures[0].returned_after_ms) == (None, 2_120)


def test_where_clocks_differ_the_absence_is_not_known() -> None:
    one, other = EvidenceLog(clock="1"), EvidenceLog(Source.BROKER_LOG, clock="2", now_ms=5)
    one.leave("m1", 3, client_id="w1")
    one.rebalance(4, count=1)
    other.join("m2", 4, client_id="w1")
    other.rebalance(5, count=2)
    departure = rounds_of_group("g", [*one.lines, *other.lines])[0].departures[0]
    assert departure.returned is not None
    assert departure.returned_after_ms is None


def gone(at_ms: int, role: str = "left") -> Departure:
    return Departure(who=Identity(f"A{at_ms}"), at_ms=at_ms, clock="c", role=role)


def came(at_ms: int) -> Arrival:
    return Arrival(who=Identity(f"B{at_ms}"), at_ms=at_ms, clock="c")


def test_one_goes_and_another_comes_within_seconds() -> None:
    members, departure, arrival = NamelessMembers(), gone(0), came(NAMELESS_WITHIN_MS)
    members.add(departure)
    members.pair(arrival)
    assert arrival.loss is departure
    assert (departure.is_nameless_pair, departure.returned_after_ms) == (True, NAMELESS_WITHIN_MS)


def test_later_ones_are_new() -> None:
    members, arrival = NamelessMembers(), came(NAMELESS_WITHIN_MS + 1)
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
