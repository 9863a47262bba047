from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.sources.model import Kind, Source
from tests.support.kit.evidence import EvidenceLog, member


def test_members_that_have_to_revoke_make_a_second_half() -> None:
    log = EvidenceLog()
    log.join("b", 1)
    log.rebalance(2, count=2)
    log.rejoin("a", 2, after_ms=50, client_reason="need to revoke partitions and re-join")
    log.rebalance(3, count=2)
    (only,) = rounds_of_group("g", log.lines)
    assert [each.generation for each in only.follow_ups] == [3]
    assert only.ended_ms == log.now_ms


def test_an_assignment_of_what_was_revoked_is_a_second_half_without_words() -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC)
    log.add(Kind.SYNC_COMPLETED, generation=1, members=(member("a", 0, 1),))
    log.add(Kind.SYNC_COMPLETED, 9_000, generation=2, members=(member("a", 0), member("b")))
    log.add(Kind.SYNC_COMPLETED, 400, generation=3, members=(member("a", 0), member("b", 1)))
    assert [[half.generation for half in each.follow_ups] for each in rounds_of_group("g", log.lines)] == [[], [3]]


def test_another_reason_or_another_member_makes_a_rebalance_of_its_own() -> None:
    for reason, after_ms in (("cached metadata has changed", 50), ("need to revoke partitions and re-join", 60_000)):
        log = EvidenceLog()
        log.join("b", 1)
        log.rebalance(2, count=2)
        log.rejoin("a", 2, after_ms=after_ms, client_reason=reason)
        log.rebalance(3, count=2)
        assert len(rounds_of_group("g", log.lines)) == 2
