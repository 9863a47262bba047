from ottla.core.diagnosis.evidence.model import Source
from ottla.core.diagnosis.rounds.assembly import rounds_of_group
from ottla.core.diagnosis.rounds.returns import RETURN_WITHIN_MS
from ottla.testing.kit.evidence import EvidenceLog


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


def test_where_clocks_differ_the_absence_is_not_known() -> None:
    one, other = EvidenceLog(clock="1"), EvidenceLog(Source.BROKER_LOG, clock="2", now_ms=5)
    one.leave("m1", 3, client_id="w1")
    one.rebalance(4, count=1)
    other.join("m2", 4, client_id="w1")
    other.rebalance(5, count=2)
    departure = rounds_of_group("g", [*one.lines, *other.lines])[0].departures[0]
    assert departure.returned is not None
    assert departure.returned_after_ms is None
