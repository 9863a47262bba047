"""Who came, who went, who was a member, what members subscribe to, and when partitions committed."""

import pytest

from ottla.history.processes import Identity, KnownMembers
from ottla.history.rounds.assembly import rounds_of_group
from ottla.history.rounds.membership import (
    PATTERN_WITHIN_MS,
    CommitHistory,
    Role,
    note_resubscribed,
    plain_reason,
    read_changes,
    role_of,
    topics_resubscribed,
)
from ottla.history.rounds.merging import by_clock, merge
from ottla.history.rounds.round import Arrival, Membership, Round
from ottla.history.rounds.splitting import Part, Stage
from ottla.history.sources.evidence import CommitSpan, Kind, Source
from ottla.protocol.model import TopicPartition
from tests.support.kit.evidence import EvidenceLog, member

BEFORE, AFTER = (Membership({}, "range", frozenset(topics), True) for topics in ("t", "tu"))

ONE, OTHER = TopicPartition("t", 0), TopicPartition("t", 1)


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


def test_a_member_that_left_was_not_lost_where_a_reloaded_coordinator_removes_it_again() -> None:
    log = EvidenceLog()
    log.leave("b-id", 4)
    log.add(Kind.MEMBER_REMOVED, 9_000, member_id="b-id", trigger="EXPIRE_HEARTBEAT")
    log.rebalance(5, count=1)
    (departure,) = rounds_of_group("g", log.lines)[0].departures
    assert departure.role == Role.LEFT


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


def only_round(log: EvidenceLog) -> Round:
    known = KnownMembers()
    known.learn(log.lines)
    (each,) = merge("g", by_clock(log.lines))
    read_changes(each, known)
    return each


@pytest.mark.parametrize(
    ("fields", "role"),
    [
        ({"reason": "Adding new member m; client reason: encountered UNKNOWN_MEMBER_ID", "candidates": ("EXPIRE_HEARTBEAT",)}, Role.JOINED),
        ({"reason": "explicit `LeaveGroup` request for (m) members."}, Role.LEFT),
        ({"reason": "removing member m on LeaveGroup"}, Role.LEFT),
        ({"reason": "Removing member m on heartbeat expiration.", "trigger": "EXPIRE_HEARTBEAT"}, Role.EXPIRED),
        ({"reason": "Removing [m] on pending sync request expiration", "trigger": "SYNC_TIMEOUT"}, Role.LATE_TO_SYNC),
        ({"reason": "Leader m re-joining group during Stable; client reason: x"}, Role.REJOINED),
        ({"trigger": "JOIN_TIMEOUT"}, Role.LATE_TO_JOIN),
        ({"candidates": ("LEAVE_CLOSE", "POLL_TIMEOUT")}, Role.LEFT),
        ({}, Role.OTHER),
    ],
)
def test_the_role_is_read_from_the_reason_or_the_code(fields: dict[str, object], role: Role) -> None:
    assert role_of(EvidenceLog().add(Kind.TRIGGER, **fields)) is role


def test_several_lines_about_a_member_are_one_departure() -> None:
    log = EvidenceLog()
    log.leave("w1-id", 3, client_reason="the consumer is being closed", client_id="w1")
    log.add(Kind.MEMBER_JOINED, 10, member_id="n")
    log.rebalance(4, count=2)
    each = only_round(log)
    (departure,), (arrival,) = each.departures, each.arrivals
    assert (departure.role, departure.client_reason, departure.who.client_id) == (Role.LEFT, "the consumer is being closed", "w1")
    assert arrival.who.member_id == "n"


def test_a_trigger_for_several_members_adds_none() -> None:
    log = EvidenceLog()
    for name in ("a", "b"):
        log.add(Kind.MEMBER_LEFT, 5, member_id=name)
    log.add(Kind.TRIGGER, generation=3, reason="explicit `LeaveGroup` request for (a, b) members.")
    log.rebalance(4)
    assert [departure.who.member_id for departure in only_round(log).departures] == ["a", "b"]


def test_no_reason_differs_from_an_unknown_one() -> None:
    assert plain_reason("not provided") == ""
    assert plain_reason(None) is None


def rebalance(at_ms: int, member_id: str = "m", **evidence: int) -> Round:
    log = EvidenceLog(now_ms=at_ms)
    log.add(Kind.TRIGGER, member_id=member_id, evidence=evidence)
    part = Part(clock="broker-log", source=Source.GROUP_EVENTS, stage=Stage.ENDED, items=log.lines)
    return Round(group="g", generation=1, parts=[part])


def test_a_member_says_that_it_subscribes_to_other_topics() -> None:
    assert topics_resubscribed(rebalance(0, topics_added=0, topics_removed=1))
    assert not topics_resubscribed(rebalance(0, topics_added=0, topics_removed=0))


@pytest.mark.parametrize(("count", "is_resubscribed"), [(0, False), (1, True)])
def test_a_count_of_members_says_more_than_a_list_of_topics(count: int, is_resubscribed: bool) -> None:
    each = rebalance(0, members_resubscribed=count)
    each.before, each.after = BEFORE, AFTER
    assert topics_resubscribed(each) is is_resubscribed


def test_lists_of_topics_are_compared_where_nothing_else_is_known() -> None:
    each = rebalance(0)
    each.before, each.after = BEFORE, AFTER
    assert topics_resubscribed(each)


def test_members_that_see_a_new_topic_one_after_the_other_are_taken_together() -> None:
    rounds = [rebalance(0, "a", topics_added=1), rebalance(20_000, "b", topics_added=1), rebalance(21_000, "c")]
    note_resubscribed(rounds)
    assert [sorted(each.resubscribed) for each in rounds] == [["a", "b"], ["a", "b"], []]


@pytest.mark.parametrize("after_ms", [PATTERN_WITHIN_MS + 1, 1_000])
def test_they_are_not_if_it_is_long_after_or_members_came(after_ms: int) -> None:
    rounds = [rebalance(0, "a", topics_added=1), rebalance(after_ms, "b", topics_added=1)]
    if after_ms < PATTERN_WITHIN_MS:
        rounds[1].arrivals.append(Arrival(who=Identity("b"), at_ms=after_ms, clock="broker-log"))
    note_resubscribed(rounds)
    assert [sorted(each.resubscribed) for each in rounds] == [["a"], ["b"]]


def test_the_gap_is_since_the_last_commit_of_any_partition() -> None:
    history = CommitHistory()
    history.add("c", {ONE: CommitSpan(1_000, 5_000, 0, 40, 5), OTHER: CommitSpan(1_000, 1_000, 0, 0, 1)})
    assert history.gap_ms([ONE, OTHER], 11_000) == (6_000, 1_000)
    assert history.gap_ms([OTHER], 11_000) == (10_000, None)
    assert history.gap_ms([TopicPartition("u", 0)], 11_000) is None
    assert history.gap_ms([ONE], 0) == (0, 1_000)


def test_commits_of_another_clock_replace_the_earlier_ones() -> None:
    history = CommitHistory()
    history.add("c", {ONE: CommitSpan(1_000, 5_000, 0, 40, 5)})
    history.add("d", {})
    assert history.clock == "c"
    history.add("d", {OTHER: CommitSpan(7, 7, 0, 0, 1)})
    assert history.gap_ms([ONE], 9_000) is None
