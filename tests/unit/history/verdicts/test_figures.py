from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.sources.model import Kind, Source
from ottla.history.verdicts.cost import figures_of
from tests.support.kit.evidence import EvidenceLog


def test_figures_of_a_lost_member_and_of_its_rebalance() -> None:
    log = EvidenceLog(Source.GROUP_EVENTS)
    log.expire("m1", 3, evidence={"last_heartbeat_age_ms": 6_100, "session_timeout_ms": 6_000, "rebalance_timeout_ms": 8_000})
    log.add(Kind.TRIGGER, 50, generation=3, coalesced=True, trigger="JOIN_NEW", member_id="m2")
    log.rebalance(4, count=2)
    (each,) = rounds_of_group("g", log.lines)
    assert figures_of(each, each.departures[0], None) == {
        "silent_ms": 6_100,
        "session_timeout_ms": 6_000,
        "max_poll_interval_ms": 8_000,
        "coalesced_triggers": 1,
    }


def test_a_return_has_the_figures_of_its_loss() -> None:
    log = EvidenceLog()
    log.leave("m1", 3, client_id="w")
    log.rebalance(4, count=1)
    log.join("m2", 4, after_ms=880, client_id="w")
    log.rebalance(5, count=2)
    each = rounds_of_group("g", log.lines)[1]
    assert figures_of(each, None, each.arrivals[0])["absence_ms"] == 1_000


def test_members_that_started_a_moment_too_late_are_counted() -> None:
    log = EvidenceLog()
    log.join("m1", 0)
    log.rebalance(1, count=1)
    log.join("m2", 1, after_ms=400)
    log.rebalance(2, count=2)
    first, second = rounds_of_group("g", log.lines)
    assert "late_starters" not in figures_of(first, None, first.arrivals[0])
    assert figures_of(second, None, second.arrivals[0])["late_starters"] == 1
