from ottla.history.rounds.merging import by_clock, merge
from ottla.history.rounds.round import Round
from ottla.history.sources.model import Kind, Source
from tests.support.kit.evidence import EvidenceLog


def test_times_are_those_of_the_most_informative_source() -> None:
    log, topic = EvidenceLog(now_ms=5_000), EvidenceLog(Source.OFFSETS_TOPIC, now_ms=99)
    log.join("a", 0, after_ms=0)
    log.rebalance(1)
    topic.add(Kind.SYNC_COMPLETED, generation=1)
    (each,) = merge("g", by_clock([*topic.lines, *log.lines]))
    assert (each.clock, each.started_ms, each.ended_ms) == ("broker-log", 5_000, 5_120)
    assert [item.source for item in each.of_kind(Kind.SYNC_COMPLETED)] == [Source.BROKER_LOG, Source.OFFSETS_TOPIC]
    assert not each.is_consumer_type


def test_a_round_that_only_clients_saw_has_their_times() -> None:
    log = EvidenceLog(Source.CLIENT_LOG, now_ms=10)
    log.add(Kind.CLIENT_REJOINS)
    log.add(Kind.CLIENT_JOINED, 30, generation=3)
    each = Round(group="g", generation=3, parts=[], client_items=log.lines)
    assert (each.main, each.started_ms, each.ended_ms, each.clock) == (None, 10, 40, "client-log")


def test_what_came_before_a_line_is_counted_on_its_own_clock() -> None:
    log = EvidenceLog()
    log.leave("a", 3)
    log.rebalance(4)
    (each,) = merge("g", by_clock(log.lines))
    assert [each.items_before(item) for item in each.items] == [0, 1, 2, 3]
