from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.sources.model import CommitSpan, Kind, Source
from ottla.protocol.model import TopicPartition
from tests.support.kit.evidence import EvidenceLog, member


def test_members_that_only_lists_show_to_have_come_or_gone() -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC)
    log.add(Kind.SYNC_COMPLETED, generation=4, members=(member("a", 0), member("b", 1)))
    log.add(Kind.SYNC_COMPLETED, 9_000, generation=5, members=(member("a", 0), member("c", 1)))
    first, second = rounds_of_group("g", log.lines)
    assert [departure.who.client_id for departure in second.departures] == ["b"]
    assert [arrival.who.client_id for arrival in second.arrivals] == ["c"]
    assert (second.count_before, second.count_after) == (2, 2)
    assert second.diff is not None
    assert second.diff.moved == 1
    assert first.diff is None


def test_members_that_a_log_names_are_not_counted_twice() -> None:
    log, topic = EvidenceLog(), EvidenceLog(Source.OFFSETS_TOPIC)
    topic.add(Kind.SYNC_COMPLETED, generation=4, members=(member("a"), member("b")))
    log.leave("b-id", 4)
    log.rebalance(5, count=1)
    topic.add(Kind.SYNC_COMPLETED, generation=5, members=(member("a"),))
    second = rounds_of_group("g", [*log.lines, *topic.lines])[-1]
    (departure,) = second.departures
    assert (departure.role, departure.session_timeout_ms, departure.rebalance_timeout_ms) == ("left", 6_000, 8_000)


def test_a_log_without_lists_counts_members_by_what_came_and_went() -> None:
    log = EvidenceLog()
    log.leave("b-id", 4)
    log.rebalance(5, count=2)
    log.join("c-id", 5)
    log.rebalance(6, count=3)
    assert [(each.count_before, each.count_after) for each in rounds_of_group("g", log.lines)] == [(3, 2), (2, 3)]


def test_the_first_members_of_a_group_come_from_nowhere() -> None:
    log = EvidenceLog()
    log.join("a-id", 0)
    log.rebalance(1, count=1)
    log.join("b-id", 1, after_ms=1_000)
    log.rebalance(2, count=2)
    first, second = rounds_of_group("g", log.lines)
    assert (first.count_before, first.since_cold_start_ms, second.since_cold_start_ms) == (0, 0, 1_000)


def test_the_last_commit_of_a_lost_member_is_measured_on_its_own_clock() -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC, now_ms=0)
    span = CommitSpan(1_000, 4_000, 0, 30, 4)
    log.add(Kind.SYNC_COMPLETED, 500, generation=1, members=(member("a", 0), member("b", 1)))
    log.add(Kind.COMMITS, 4_000, commits={TopicPartition("t", 1): span})
    log.add(Kind.SYNC_COMPLETED, 6_000, generation=2, members=(member("a", 0, 1),))
    (departure,) = rounds_of_group("g", log.lines)[1].departures
    assert (departure.commit_gap_ms, departure.commit_interval_ms, departure.partition_count) == (6_500, 1_000, 1)


def test_skipped_generations_are_counted() -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC)
    log.add(Kind.SYNC_COMPLETED, generation=1, members=(member("a"),))
    log.add(Kind.SYNC_COMPLETED, generation=4, members=(member("a"),))
    assert [each.skipped for each in rounds_of_group("g", log.lines)] == [0, 2]


def test_a_first_look_shows_who_was_there() -> None:
    log = EvidenceLog(Source.ADMIN)
    log.add(Kind.OBSERVED, members=(member("a"), member("b")))
    log.add(Kind.MEMBER_LEFT, 2_000, member_id="b-id")
    log.add(Kind.SYNC_COMPLETED, members=(member("a"),))
    (only,) = rounds_of_group("g", log.lines)
    assert (only.count_before, only.count_after, only.generation) == (2, 1, None)


def test_the_first_generation_of_a_list_is_the_groups_first() -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC)
    log.add(Kind.SYNC_COMPLETED, generation=1, members=(member("a"), member("b")))
    (only,) = rounds_of_group("g", log.lines)
    assert (only.count_before, only.count_after, len(only.arrivals)) == (0, 2, 2)


def test_a_static_member_that_came_back_has_a_new_member_id_and_its_old_one_did_not_go() -> None:
    log = EvidenceLog(Source.GROUP_EVENTS)
    log.rebalance(1, members=(member("a", 0, member_id="i-1", instance_id="i"), member("b", 1)))
    log.add(Kind.STATIC_REPLACED, 9_000, generation=1, instance_id="i", member_id="i-2", client_id="a")
    log.expire("i-2", 1, instance_id="i")
    log.rebalance(2, members=(member("b", 0, 1),))
    last = rounds_of_group("g", log.lines)[-1]
    assert [departure.who.member_id for departure in last.departures] == ["i-2"]
    assert (last.count_before, last.count_after) == (2, 1)


def test_commits_after_a_rebalance_are_those_before_the_next() -> None:
    partition, log = TopicPartition("t", 0), EvidenceLog(Source.OFFSETS_TOPIC)
    spans = [CommitSpan(at, at, at, at, 1) for at in (10, 20, 30)]
    for generation, span in enumerate(spans, 4):
        log.add(Kind.COMMITS, commits={partition: span})
        log.add(Kind.SYNC_COMPLETED, generation=generation, members=(member("a", 0),))
    log.add(Kind.COMMITS, commits={partition: CommitSpan(40, 40, 40, 40, 1)})
    found = rounds_of_group("g", log.lines)
    assert [each.commits[partition].first_offset for each in found] == [10, 20, 30]
    assert [each.commits_after[partition].first_offset for each in found] == [20, 30, 40]


def test_clients_name_the_assignor_where_no_list_does() -> None:
    log, joined = EvidenceLog(), EvidenceLog(Source.CLIENT_LOG)
    for generation, protocol in enumerate(("range", "range", "roundrobin", None), 1):
        log.rejoin("a-id", generation - 1)
        log.rebalance(generation, count=1)
        joined.add(Kind.CLIENT_JOINED, generation=generation, member_id="a-id", protocol=protocol)
    rounds = rounds_of_group("g", [*log.lines, *joined.lines])
    before, after = [each.protocol_before for each in rounds], [each.protocol_after for each in rounds]
    assert (before, after) == ([None, "range", "range", "roundrobin"], ["range", "range", "roundrobin", None])


def test_every_rebalance_knows_how_long_ago_the_coordinator_moved() -> None:
    log = EvidenceLog()
    log.rejoin("a-id", 3)
    log.rebalance(4, count=1)
    log.add(Kind.LOADED)
    for generation in (4, 5):
        log.rejoin("a-id", generation, after_ms=1_000)
        log.rebalance(generation + 1, count=1)
    assert [each.since_move_ms for each in rounds_of_group("g", log.lines)] == [None, 1_000, 2_120]


def test_a_generation_that_was_superseded_is_the_one_before_too() -> None:
    log = EvidenceLog()
    log.leave("b-id", 3)
    formed = log.add(Kind.JOIN_COMPLETED, 100, generation=4, member_count=1)
    log.rejoin("a-id", 4, after_ms=5)
    log.rebalance(5, count=1)
    second = rounds_of_group("g", log.lines)[-1]
    assert second.previous is not None
    assert (second.previous.ended_ms, second.previous.is_membership_change) == (formed.at_ms, True)
