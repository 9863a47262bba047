"""Evidence to the rebalances of each group, second halves joined to the first."""

from ottla.history.group_history import group_histories
from ottla.history.rounds.assembly import by_group, rounds_of_group
from ottla.history.sources.evidence import Kind, Source
from tests.support.kit.evidence import EvidenceLog, member


def test_each_group_has_its_own_rebalances() -> None:
    one, two = EvidenceLog(group="one"), EvidenceLog(group="two", clock="other")
    one.join("a", 0)
    one.rebalance(1)
    two.join("b", 4)
    two.rebalance(5)
    two.add(Kind.DELETED, 5)
    histories = group_histories([*two.lines, *one.lines])
    assert {group: [(each.generation, each.clock) for each in history.rebalances] for group, history in histories.items()} == {
        "two": [(5, "other")],
        "one": [(1, "broker-log")],
    }


def test_evidence_without_a_group_is_placed_by_member_or_client() -> None:
    log, client = EvidenceLog(), EvidenceLog(Source.CLIENT_LOG, group=None)
    log.join("m1", 0, client_id="w1")
    by_member = client.add(Kind.CLIENT_LEAVES, member_id="m1")
    by_client = client.add(Kind.CLIENT_LEAVES, client_id="w1")
    client.add(Kind.CLIENT_LEAVES, client_id="w9")
    found = by_group([*client.lines, *log.lines])
    assert list(found) == ["g"]
    assert found["g"][-2:] == [by_member, by_client]


def test_a_client_id_of_two_groups_says_nothing() -> None:
    one, two, client = EvidenceLog(group="one"), EvidenceLog(group="two"), EvidenceLog(Source.CLIENT_LOG, group=None)
    one.join("m1", 0, client_id="rdkafka")
    two.join("m2", 0, client_id="rdkafka")
    client.add(Kind.CLIENT_LOST, client_id="rdkafka")
    assert sum(len(items) for items in by_group([*one.lines, *two.lines, *client.lines]).values()) == 2


def test_a_log_of_one_group_keeps_its_lines_together() -> None:
    named, nameless = EvidenceLog(Source.CLIENT_LOG, clock="a.log"), EvidenceLog(Source.CLIENT_LOG, clock="a.log", group=None)
    named.add(Kind.CLIENT_JOINED, generation=1)
    nameless.add(Kind.CLIENT_LOST)
    assert len(by_group([*named.lines, *nameless.lines])["g"]) == 2


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


def test_refusals_that_only_a_client_saw_are_one_entry_and_no_rebalance() -> None:
    log, client = EvidenceLog(), EvidenceLog(Source.CLIENT_LOG, clock="w2.log", now_ms=1_004_000)
    log.join("a", 0, client_id="w1")
    log.rebalance(1, count=1)
    for _ in range(3):
        client.add(Kind.JOIN_REFUSED, 900, client_id="w2", trigger="FAILED_JOIN")
    rounds = rounds_of_group("g", [*log.lines, *client.lines])
    assert [(each.is_avoided, each.started_ms) for each in rounds] == [(True, 1_004_900), (False, 1_005_000)]
