"""Verdicts on the rebalances of a group."""

import pytest

from ottla.history.sources.evidence import Cause, CommitSpan, Kind, Source
from ottla.history.verdicts.judging import judge, judge_group, stated_findings
from ottla.history.verdicts.verdict import AVOIDED, Confidence, Verdict, narrow
from ottla.protocol.model import TopicPartition
from tests.support.kit.evidence import EvidenceLog, member

CLOSED = "the consumer is being closed"


def last(*logs: EvidenceLog) -> Verdict:
    return judge_group("g", [line for log in logs for line in log.lines])[-1]


def settled() -> EvidenceLog:
    """A group of two members that has been there for a while."""
    log = EvidenceLog()
    log.join("m1", 0, client_id="w1")
    log.join("m2", 0, after_ms=500, client_id="w2", coalesced=True)
    log.rebalance(1, count=2)
    log.now_ms += 60_000
    return log


def test_a_first_start_and_a_scale_out() -> None:
    log = settled()
    log.join("m3", 1, client_id="w3")
    log.rebalance(2, count=3)
    first, second = judge_group("g", log.lines)
    assert (first.cause, first.planned, first.members_before, first.members_after) == (Cause.COLD_START, True, 0, 2)
    assert (second.cause, second.confidence, second.avoidable) == (Cause.JOIN_NEW, Confidence.HIGH, False)
    assert second.who is not None
    assert second.who.client_id == "w3"


def test_a_close_with_a_reason_and_one_without() -> None:
    for reason, confidence in ((CLOSED, Confidence.HIGH), ("not provided", Confidence.MEDIUM)):
        log = settled()
        log.leave("m2", 1, client_reason=reason, client_id="w2")
        log.rebalance(2, count=1)
        assert (last(log).cause, last(log).confidence) == (Cause.LEAVE_CLOSE, confidence)
    assert Cause.POLL_TIMEOUT in last(log).candidates
    assert last(log).sharper is not None


@pytest.mark.parametrize("reason", [CLOSED, "not provided"])
def test_a_client_that_leaves_and_returns_was_restarted(reason: str) -> None:
    log = settled()
    log.leave("m2", 1, client_reason=reason, client_id="w2")
    log.rebalance(2, count=1)
    log.join("m4", 2, after_ms=1_500, client_id="w2")
    log.rebalance(3, count=2)
    half, other = judge_group("g", log.lines)[1:]
    assert (half.cause, other.cause, half.avoidable) == (Cause.RESTART_DYNAMIC, Cause.RESTART_DYNAMIC, True)
    assert half.evidence["absence_ms"] == 1_620
    assert half.advice[0].setting == "group.instance.id"


def test_a_silent_member_that_returns_is_one_story() -> None:
    log = settled()
    log.expire("m2", 1, client_id="w2", evidence={"session_timeout_ms": 6_000})
    log.rebalance(2, count=1)
    log.join("m4", 2, after_ms=3_000, client_id="w2")
    log.rebalance(3, count=2)
    loss, back = judge_group("g", log.lines)[1:]
    assert (loss.cause, back.cause, loss.rebalance_class) == (Cause.EXPIRE_HEARTBEAT, Cause.EXPIRE_HEARTBEAT, 1)
    assert (loss.avoidable, loss.advice[0].setting, loss.advice[0].value) == (True, "session.timeout.ms", "15000")


def test_a_silent_member_that_stays_away_could_not_be_helped() -> None:
    log = settled()
    log.expire("m2", 1, client_id="w2")
    log.rebalance(2, count=1)
    assert (last(log).cause, last(log).avoidable, last(log).advice[0].value) == (Cause.EXPIRE_HEARTBEAT, False, None)


def test_a_killed_process_that_started_again_before_its_session_ended() -> None:
    log = settled()
    log.join("m4", 1, client_id="w2")
    log.add(Kind.MEMBER_REMOVED, 4_000, member_id="m2", trigger="EXPIRE_HEARTBEAT")
    log.rebalance(2, count=2)
    assert last(log).cause is Cause.RESTART_DYNAMIC


def test_poll_timeouts_by_reason_and_by_the_clients_own_log() -> None:
    log = settled()
    log.leave("m2", 1, client_reason="consumer poll timeout has expired.", client_id="w2")
    log.rebalance(2, count=1)
    assert (last(log).cause, last(log).confidence, last(log).rebalance_class) == (Cause.POLL_TIMEOUT, Confidence.HIGH, 2)
    silent, client = settled(), EvidenceLog(Source.CLIENT_LOG)
    silent.leave("m2", 1, client_id="w2")
    silent.rebalance(2, count=1)
    client.add(Kind.CLIENT_JOINED, generation=1, client_id="w2")
    client.add(Kind.CLIENT_LEAVES, 9, client_id="w2", trigger="POLL_TIMEOUT", evidence={"exceeded_ms": 250})
    verdict = last(silent, client)
    assert (verdict.cause, verdict.confidence, verdict.evidence["exceeded_by_ms"]) == (Cause.POLL_TIMEOUT, Confidence.HIGH, 250)
    assert verdict.sources == ("broker-log", "client-log")


def test_late_members_decide_over_the_join_that_they_were_late_for() -> None:
    log = settled()
    log.join("m3", 1, client_id="w3")
    log.add(Kind.MEMBER_REMOVED, 8_000, member_id="m2", trigger="JOIN_TIMEOUT")
    log.rebalance(2, count=2)
    verdict = last(log)
    assert (verdict.cause, verdict.contributing, verdict.who and verdict.who.member_id) == (Cause.JOIN_TIMEOUT, (Cause.JOIN_NEW,), "m2")
    assert Cause.JOIN_NEW in verdict.candidates


@pytest.mark.parametrize(
    ("code", "cause"),
    [
        ("CAPACITY", Cause.CAPACITY),
        ("STORE_ERROR", Cause.STORE_ERROR),
        ("MIGRATION", Cause.MIGRATION),
        ("ASSIGNOR_CHANGE", Cause.ASSIGNOR_CHANGE),
        ("SYNC_TIMEOUT", Cause.SYNC_TIMEOUT),
        ("ADMIN_REMOVE", Cause.ADMIN),
    ],
)
def test_codes_that_say_it_all(code: str, cause: Cause) -> None:
    log = settled()
    log.add(Kind.TRIGGER, generation=1, trigger=code, member_id="m1")
    log.rebalance(2, count=2)
    assert (last(log).cause, last(log).confidence) == (cause, Confidence.HIGH)


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("cached metadata has changed from (..) at the beginning of the rebalance to (..)", Cause.TOPIC_CHANGE),
        ("rebalance enforced by user", Cause.ENFORCED),
        ("rebalance failed due to CoordinatorLoadInProgressException", Cause.COORDINATOR_MOVE),
    ],
)
def test_java_says_why_it_joins_again(reason: str, cause: Cause) -> None:
    log = settled()
    log.rejoin("m1", 1, client_reason=reason)
    log.rebalance(2, count=2)
    assert (last(log).cause, last(log).confidence) == (cause, Confidence.HIGH)


def test_others_do_not() -> None:
    log = settled()
    log.rejoin("m1", 1)
    log.rebalance(2, count=2)
    verdict = last(log)
    assert set(verdict.candidates) >= {Cause.TOPIC_CHANGE, Cause.SUBSCRIPTION, Cause.COOP_FOLLOWUP, Cause.LEADER_REJOIN_SPURIOUS}
    assert verdict.confidence is Confidence.LOW
    assert "offsets topic" in (verdict.sharper or "")


def test_a_coordinator_that_moved_explains_changed_metadata() -> None:
    log = settled()
    log.add(Kind.LOADED, generation=1)
    log.rejoin("m1", 1, after_ms=800, client_reason="cached metadata has changed")
    log.rebalance(2, count=2)
    assert last(log).cause is Cause.COORDINATOR_MOVE


def topic_of(*generations: tuple[tuple[int, ...], tuple[int, ...]], protocol: tuple[str, ...] = ()) -> EvidenceLog:
    log = EvidenceLog(Source.OFFSETS_TOPIC)
    for at, (one, other) in enumerate(generations):
        protocol_of = protocol[at] if protocol else "range"
        log.add(Kind.SYNC_COMPLETED, 20_000, generation=at + 4, members=(member("a", *one), member("b", *other)), protocol=protocol_of)
    return log


def test_what_an_assignment_changed_says_why() -> None:
    assert last(topic_of(((0,), (1,)), ((0, 2), (1, 3)))).cause is Cause.TOPIC_CHANGE
    assert last(topic_of(((0,), (1,)), ((0,), (1,)))).cause is Cause.LEADER_REJOIN_SPURIOUS
    assert last(topic_of(((0,), (1,)), ((0,), (1,)), protocol=("range", "roundrobin"))).cause is Cause.ASSIGNOR_CHANGE


def test_other_topics_are_another_subscription() -> None:
    log = topic_of(((0,), (1,)))
    members = (member("a", 0), member("b", 1))
    log.add(Kind.SYNC_COMPLETED, 9_000, generation=5, members=members, protocol="range", evidence={"members_resubscribed": 1})
    assert last(log).cause is Cause.SUBSCRIPTION


@pytest.mark.parametrize(("gap_ms", "cause"), [(300, Cause.LEAVE_CLOSE), (6_900, Cause.EXPIRE_HEARTBEAT), (10_400, Cause.POLL_TIMEOUT)])
def test_from_the_offsets_topic_alone_the_gap_since_the_last_commit_decides(gap_ms: int, cause: Cause) -> None:
    log = EvidenceLog(Source.OFFSETS_TOPIC, now_ms=0)
    log.add(Kind.SYNC_COMPLETED, generation=1, members=(member("a", 0), member("b", 1)))
    span = CommitSpan(20_000, 50_000, 0, 300, 31)
    log.add(Kind.COMMITS, 50_000, commits={TopicPartition("t", 1): span, TopicPartition("t", 0): span})
    log.add(Kind.SYNC_COMPLETED, gap_ms, generation=2, members=(member("a", 0, 1),))
    assert last(log).cause is cause
    assert last(log).confidence <= Confidence.MEDIUM


def test_a_static_return_is_a_row_of_its_own() -> None:
    log = settled()
    log.add(Kind.STATIC_REPLACED, generation=1, member_id="m9", instance_id="i", evidence={"last_heartbeat_age_ms": 4_000})
    verdict = last(log)
    assert (verdict.kind, verdict.cause, verdict.cost.stopped_partitions) == (AVOIDED, Cause.STATIC_REJOIN, 0)
    assert Cause.STATIC_FENCED in verdict.candidates


def test_a_static_return_just_after_the_coordinator_was_loaded_is_the_coordinators() -> None:
    log = settled()
    log.add(Kind.LOADED, 5_000)
    log.add(Kind.STATIC_REPLACED, 100, generation=1, member_id="m9", instance_id="i")
    verdict = last(log)
    assert (verdict.kind, verdict.cause, verdict.confidence) == (AVOIDED, Cause.COORDINATOR_MOVE, Confidence.MEDIUM)
    assert Cause.STATIC_REJOIN in verdict.candidates


def test_kip_848_leaves_that_come_back_with_the_same_id_were_no_restart() -> None:
    log = EvidenceLog(group_type="consumer")
    log.add(Kind.MEMBER_LEFT, member_id="A")
    log.add(Kind.JOIN_COMPLETED, generation=7)
    log.add(Kind.SYNC_COMPLETED, 500, generation=7)
    log.add(Kind.MEMBER_JOINED, 4_000, member_id="A")
    log.add(Kind.JOIN_COMPLETED, generation=8)
    assert [verdict.cause for verdict in judge_group("g", log.lines)] == [Cause.POLL_TIMEOUT, Cause.POLL_TIMEOUT]


def test_a_conversion_is_a_migration_unless_the_group_was_empty() -> None:
    for reason, cause in (
        ("Converted the classic group to a consumer group.", Cause.MIGRATION),
        ("Converted the empty ...", Cause.COLD_START),
    ):
        log = EvidenceLog(group_type="consumer")
        log.add(Kind.CONVERTED, trigger="MIGRATION", reason=reason)
        log.add(Kind.MEMBER_JOINED, member_id="A")
        log.add(Kind.JOIN_COMPLETED, generation=2, member_count=1)
        assert last(log).cause is cause


def test_groups_are_judged_by_themselves() -> None:
    one, two = EvidenceLog(group="one"), EvidenceLog(group="two")
    for log in (one, two):
        log.join("a", 0)
        log.rebalance(1, count=1)
    assert {group: len(found) for group, found in judge([*one.lines, *two.lines]).items()} == {"one": 1, "two": 1}


def with_port(log: EvidenceLog, member_id: str, port: int, old_generation: int, **fields: object) -> None:
    log.join(member_id, old_generation, client_id="w2", evidence={"client_port": port}, **fields)


@pytest.mark.parametrize(
    ("left_from", "came_from", "cause"),
    [(40_001, 40_001, Cause.POLL_TIMEOUT), (40_001, 40_002, Cause.RESTART_DYNAMIC), (50_000, 40_001, Cause.ADMIN)],
)
def test_connections_say_who_left_and_which_process_came_back(left_from: int, came_from: int, cause: Cause) -> None:
    log = EvidenceLog(Source.GROUP_EVENTS)
    log.join("m1", 0, client_id="w1")
    log.rebalance(1, members=(member("w1", 0),))
    with_port(log, "m2", 40_001, 1)
    log.rebalance(2, members=(member("w1", 0), member("w2", 1, member_id="m2")))
    reason = "explicit `LeaveGroup` request for (m2) members."
    log.add(Kind.TRIGGER, 60_000, generation=2, member_id="m2", client_id="w2", reason=reason, evidence={"client_port": left_from})
    log.rebalance(3, members=(member("w1", 0, 1),))
    with_port(log, "m3", came_from, 3, after_ms=4_000)
    log.rebalance(4, members=(member("w1", 0), member("w2", 1, member_id="m3")))
    loss, back = judge_group("g", log.lines)[2:]
    assert (loss.cause, back.cause) == (cause, cause)


def test_members_that_are_lost_right_after_a_move_were_lost_by_it() -> None:
    log = settled()
    log.add(Kind.LOADED, generation=1)
    log.expire("m2", 1, after_ms=6_000, client_id="w2")
    log.rebalance(2, count=1)
    log.join("m4", 2, after_ms=900, client_id="w2")
    log.rebalance(3, count=2)
    loss, back = judge_group("g", log.lines)[1:]
    assert (loss.cause, back.cause) == (Cause.COORDINATOR_MOVE, Cause.COORDINATOR_MOVE)
    assert Cause.EXPIRE_HEARTBEAT in loss.candidates


def test_kip_848_members_with_random_ids_are_paired_by_time_without_certainty() -> None:
    log = EvidenceLog(group_type="consumer")
    log.add(Kind.MEMBER_LEFT, member_id="A")
    log.add(Kind.JOIN_COMPLETED, generation=7)
    log.add(Kind.SYNC_COMPLETED, 500, generation=7)
    log.add(Kind.MEMBER_JOINED, 4_000, member_id="B")
    log.add(Kind.JOIN_COMPLETED, generation=8)
    found = judge_group("g", log.lines)
    assert [verdict.cause for verdict in found] == [Cause.RESTART_DYNAMIC, Cause.RESTART_DYNAMIC]
    assert all(verdict.confidence < Confidence.HIGH and Cause.LEAVE_CLOSE in found[0].candidates for verdict in found)


def test_clients_logs_alone_are_never_certain() -> None:
    log = EvidenceLog(Source.CLIENT_LOG)
    log.add(Kind.CLIENT_JOINED, generation=1, client_id="w1")
    log.add(Kind.CLIENT_LEAVES, 60_000, client_id="w1", trigger="POLL_TIMEOUT")
    log.add(Kind.CLIENT_JOINED, 5_000, generation=3, client_id="w1")
    start, loss, back = judge_group("g", log.lines)
    assert (start.cause, loss.cause, back.cause) == (Cause.COLD_START, Cause.POLL_TIMEOUT, Cause.POLL_TIMEOUT)
    assert max(verdict.confidence for verdict in (start, loss, back)) is Confidence.MEDIUM


def test_a_code_is_nearly_certain_and_candidates_stay_open() -> None:
    log = EvidenceLog(Source.CLIENT_LOG)
    code = log.add(Kind.CLIENT_LOST, trigger="POLL_TIMEOUT")
    candidates = log.add(Kind.CLIENT_LOST, candidates=("EXPIRE_HEARTBEAT", "JOIN_TIMEOUT"))
    assert narrow(stated_findings([code], of_departure=True)).cause is Cause.POLL_TIMEOUT
    assert set(narrow(stated_findings([candidates], of_departure=True)).candidates) >= {Cause.EXPIRE_HEARTBEAT, Cause.JOIN_TIMEOUT}


def test_a_client_that_says_that_it_was_too_slow_was_not_stopped() -> None:
    (finding,) = stated_findings([EvidenceLog(Source.CLIENT_LOG).add(Kind.CLIENT_LOST, trigger="POLL_TIMEOUT")], of_departure=True)
    assert Cause.RESTART_DYNAMIC not in finding.weights


def test_a_client_that_closes_does_not_say_that_it_will_be_started_again() -> None:
    (finding,) = stated_findings([EvidenceLog().add(Kind.MEMBER_LEFT, trigger="LEAVE_CLOSE")], of_departure=True)
    assert finding.weights[Cause.LEAVE_CLOSE] == finding.weights[Cause.RESTART_DYNAMIC]


def test_the_same_words_count_once_and_unknown_ones_not_at_all() -> None:
    log = EvidenceLog()
    items = [
        log.add(Kind.TRIGGER, trigger="ADMIN_REMOVE"),
        log.add(Kind.TRIGGER, trigger="ADMIN_REMOVE"),
        log.add(Kind.TRIGGER, trigger="x"),
    ]
    (finding,) = stated_findings([*items, log.add(Kind.TRIGGER, candidates=("y",)), log.add(Kind.TRIGGER)], of_departure=False)
    assert (finding.weights[Cause.ADMIN], finding.confidence) == (1.0, Confidence.HIGH)


# --- one cause for what happens together


def expired_at_once(group: str, names: tuple[str, ...], at_ms: int, *, absence_ms: int = 300) -> EvidenceLog:
    log = EvidenceLog(group=group, clock="broker")
    for name in names:
        log.join(f"{name}-id", 0, client_id=name, after_ms=10)
    log.rebalance(1, count=len(names))
    log.add(Kind.MEMBER_REMOVED, at_ms - log.now_ms, member_id=f"{names[0]}-id", client_id=names[0], trigger="EXPIRE_HEARTBEAT")
    log.add(Kind.TRIGGER, generation=1, trigger="EXPIRE_HEARTBEAT", member_id=f"{names[0]}-id", client_id=names[0])
    for name in names[1:]:
        log.add(Kind.MEMBER_REMOVED, 20, member_id=f"{name}-id", client_id=name, trigger="EXPIRE_HEARTBEAT")
    log.add(Kind.EMPTIED, 10, generation=2)
    for name in names:
        log.join(f"{name}-new", 2, client_id=name, after_ms=absence_ms)
    log.rebalance(3, count=len(names))
    return log


def test_members_of_several_groups_that_are_lost_in_one_instant_were_lost_by_their_broker() -> None:
    a, b = expired_at_once("a", ("a1", "a2"), 1_090_000), expired_at_once("b", ("b1", "b2"), 1_090_200)
    for verdicts in judge([*a.lines, *b.lines]).values():
        loss, back = verdicts[1:]
        assert (loss.cause, back.cause) == (Cause.COORDINATOR_MOVE, Cause.COORDINATOR_MOVE)
        assert (loss.planned, back.planned) == (False, False)
    alone = judge(a.lines)["a"][1]
    assert alone.cause is Cause.EXPIRE_HEARTBEAT, "two members of one group may have died together"
    later = expired_at_once("b", ("b1", "b2"), 1_096_000)
    assert judge([*a.lines, *later.lines])["a"][1].cause is Cause.EXPIRE_HEARTBEAT


def test_sessions_that_began_together_when_groups_were_loaded_end_together() -> None:
    def first_loss(absence_ms: int) -> Verdict:
        a = expired_at_once("a", ("a1", "a2"), 1_090_000, absence_ms=absence_ms)
        b = expired_at_once("b", ("b1", "b2"), 1_090_200, absence_ms=absence_ms)
        loaded = EvidenceLog(group="c", clock="broker", now_ms=1_045_000)
        loaded.add(Kind.LOADED)
        return judge([*a.lines, *b.lines, *loaded.lines])["a"][1]

    assert first_loss(8_000).cause is Cause.EXPIRE_HEARTBEAT
    assert first_loss(300).cause is Cause.COORDINATOR_MOVE, "who comes back at once had lived"


def test_one_member_that_is_lost_after_a_move_is_not_put_down_to_it() -> None:
    log = EvidenceLog()
    for number in range(4):
        log.join(f"m{number}", 0, after_ms=100, client_id=f"w{number}", coalesced=number > 0)
    log.rebalance(1, count=4)
    log.add(Kind.LOADED, 60_000)
    log.expire("m3", 1, client_id="w3", after_ms=9_000)
    log.rebalance(2, count=3)
    verdict = last(log)
    assert (verdict.cause, verdict.confidence) == (Cause.EXPIRE_HEARTBEAT, Confidence.MEDIUM)
    assert Cause.COORDINATOR_MOVE in verdict.candidates


def refused(owner_ends_ms: int | None) -> list[Verdict]:
    """KIP-848: the owner of an instance id, and a process that may not take it."""
    log = EvidenceLog(group_type="consumer")
    log.add(Kind.MEMBER_JOINED, member_id="one", instance_id="i")
    log.rebalance(2, count=1)
    log.add(Kind.JOIN_REFUSED, 60_000, member_id="two", instance_id="i", candidates=("STATIC_FENCED", "FAILED_JOIN"))
    if owner_ends_ms is not None:
        log.add(Kind.MEMBER_REMOVED, owner_ends_ms, member_id="one", trigger="EXPIRE_HEARTBEAT")
        log.rebalance(3, count=0)
    return judge_group("g", log.lines)


def test_a_static_member_that_is_killed_and_started_within_its_session_is_refused_and_no_second_process() -> None:
    verdict = next(each for each in refused(10_000) if each.kind != "rebalance")
    assert (verdict.kind, verdict.cause, verdict.planned) == ("refused", Cause.FAILED_JOIN, False)
    assert "Start it again after that" in verdict.advice[0].sentence
    for owner_ends_ms in (None, 90_000):
        verdict = next(each for each in refused(owner_ends_ms) if each.kind != "rebalance")
        assert (verdict.kind, verdict.cause) == (AVOIDED, Cause.STATIC_FENCED)


def test_a_static_member_whose_session_expires_may_have_been_closed() -> None:
    log = EvidenceLog()
    log.join("m1", 0, client_id="w1")
    log.join("m2", 0, client_id="w2", instance_id="i", coalesced=True)
    log.rebalance(1, count=2)
    log.now_ms += 60_000
    silent = EvidenceLog()
    silent.lines, silent.now_ms = list(log.lines), log.now_ms
    silent.expire("m2", 1, client_id="w2", instance_id="i")
    silent.rebalance(2, count=1)
    assert (last(silent).cause, last(silent).confidence) == (Cause.EXPIRE_HEARTBEAT, Confidence.MEDIUM)
    assert Cause.LEAVE_CLOSE in last(silent).candidates
    log.leave("m1", 1, client_reason=CLOSED, client_id="w1")
    log.rebalance(2, count=1)
    log.add(Kind.MEMBER_REMOVED, 8_000, member_id="m2", client_id="w2", instance_id="i", trigger="EXPIRE_HEARTBEAT")
    log.add(Kind.TRIGGER, generation=2, member_id="m2", trigger="EXPIRE_HEARTBEAT")
    log.add(Kind.EMPTIED, generation=3)
    assert (last(log).cause, last(log).planned) == (Cause.LEAVE_CLOSE, True), "all were stopped, one after the other"


def test_members_that_subscribe_to_other_topics_one_after_the_other_have_a_pattern() -> None:
    log = settled()
    log.rejoin("m1", 1, client_reason="the subscription has changed")
    log.rebalance(2, count=2)
    alone = last(log)
    assert (alone.cause, alone.confidence, set(alone.candidates)) == (
        Cause.SUBSCRIPTION,
        Confidence.MEDIUM,
        {Cause.SUBSCRIPTION, Cause.TOPIC_CHANGE},
    )
    log.rejoin("m2", 2, client_reason="the subscription has changed", after_ms=900)
    log.rebalance(3, count=2)
    assert [verdict.cause for verdict in judge_group("g", log.lines)][1:] == [Cause.TOPIC_CHANGE] * 2


def test_a_member_that_brings_another_assignor_changed_it() -> None:
    log, topic = EvidenceLog(), EvidenceLog(Source.OFFSETS_TOPIC)
    members = [member("w1", 0, 1)]
    log.join("w1-id", 0, client_id="w1")
    for generation, protocol in ((1, "range"), (2, "roundrobin")):
        if generation == 2:
            log.join("w2-id", 1, client_id="w2", after_ms=60_000)
            members = [member("w1", 0), member("w2", 1)]
        log.rebalance(generation, count=len(members))
        topic.now_ms = log.now_ms
        topic.add(Kind.SYNC_COMPLETED, generation=generation, members=tuple(members), protocol=protocol)
    verdict = last(log, topic)
    assert (verdict.cause, verdict.confidence) == (Cause.ASSIGNOR_CHANGE, Confidence.MEDIUM)
    assert Cause.JOIN_NEW in verdict.candidates
    log.leave("w1-id", 2, client_id="w1", client_reason="the consumer is being closed")
    log.rebalance(3, count=1)
    log.join("w1-again", 3, client_id="w1", after_ms=2_000)
    log.rebalance(4, count=2)
    restart = judge_group("g", [*log.lines, *topic.lines])[2:]
    assert [each.cause for each in restart] == [Cause.RESTART_DYNAMIC] * 2, "a newcomer had changed the assignor, no restart"


def test_a_group_that_starts_again_after_an_outage_was_not_started_by_an_operator() -> None:
    log = settled()
    at_once = {"members_lost_at_once": 9}
    for member_id in ("m1", "m2"):
        log.add(Kind.TRIGGER, generation=1, member_id=member_id, trigger="EXPIRE_HEARTBEAT", evidence=at_once, coalesced=member_id == "m2")
    log.add(Kind.EMPTIED, generation=2)
    log.join("m3", 2, after_ms=3_000, client_id="w3")
    log.rebalance(3, count=1)
    lost, start = judge_group("g", log.lines)[-2:]
    assert (lost.cause, lost.confidence) == (Cause.COORDINATOR_MOVE, Confidence.HIGH)
    assert (start.cause, start.confidence) == (Cause.COORDINATOR_MOVE, Confidence.MEDIUM)
    assert Cause.COLD_START in start.candidates


def test_a_loss_within_a_rebalance_that_others_began_is_not_what_it_is_put_down_to() -> None:
    log = settled()
    log.leave("m2", 1, client_id="w2", client_reason=CLOSED)
    log.add(
        Kind.TRIGGER, 4_000, generation=1, member_id="m1", trigger="EXPIRE_HEARTBEAT", evidence={"members_lost_at_once": 9}, coalesced=True
    )
    log.join("m4", 1, client_id="w4", coalesced=True)
    log.rebalance(2, count=1)
    assert last(log).cause is Cause.LEAVE_CLOSE


def test_a_member_that_was_lost_long_before_its_group_was_stopped_starts_with_it() -> None:
    log = EvidenceLog()
    for generation, name in enumerate(("a", "b", "c"), 1):
        log.join(f"{name}-id", generation - 1, client_id=name)
        log.rebalance(generation, count=generation)
    log.expire("a-id", 3, after_ms=30_000, client_id="a")
    log.rebalance(4, count=2)
    for generation, name in ((4, "b"), (5, "c")):
        log.leave(f"{name}-id", generation, client_id=name)
        log.rebalance(generation + 1, count=5 - generation)
    log.join("a-new", 6, client_id="a")
    log.rebalance(7, count=1)
    verdict = last(log)
    assert (verdict.cause, verdict.confidence) == (Cause.COLD_START, Confidence.MEDIUM)
    assert Cause.EXPIRE_HEARTBEAT in verdict.candidates


def test_all_static_members_that_expire_together_while_few_others_do_were_stopped() -> None:
    def expire_all(*, others: int) -> Verdict:
        log, other = EvidenceLog(), EvidenceLog(group="other")
        for generation, name in enumerate("abc", 1):
            log.join(f"{name}-id", generation - 1, client_id=name, instance_id=name)
            log.rebalance(generation, count=generation)
        log.now_ms += 30_000
        other.now_ms = log.now_ms - 2_000
        other.join("y-id", 2, client_id="y", after_ms=0)  # so the broker did not stand still
        other.now_ms = log.now_ms
        for name in "abc":
            log.expire(f"{name}-id", 3, after_ms=500, instance_id=name)
        log.add(Kind.EMPTIED, generation=4)
        for at in range(others):
            other.expire(f"x{at}-id", 3, after_ms=400, client_id=f"x{at}")
        for name in "abc":
            log.join(f"{name}-new", 4, client_id=name, instance_id=name, after_ms=1_000)
        log.rebalance(5, count=3)
        return judge([*log.lines, *other.lines])["g"][3]

    assert expire_all(others=1).cause is Cause.RESTART_DYNAMIC
    assert expire_all(others=1).confidence < Confidence.HIGH
    assert Cause.EXPIRE_HEARTBEAT in expire_all(others=1).candidates
    assert expire_all(others=2).cause is Cause.EXPIRE_HEARTBEAT, "others were lost with them"


@pytest.mark.parametrize(("age_ms", "cause"), [(6_020, Cause.EXPIRE_HEARTBEAT), (9_400, Cause.COORDINATOR_MOVE)])
def test_a_broker_that_ends_sessions_long_after_they_expired_stood_still(age_ms: int, cause: Cause) -> None:
    log = EvidenceLog(Source.GROUP_EVENTS)
    for generation, name in enumerate("abc", 1):
        log.join(f"{name}-id", generation - 1, client_id=name)
        log.rebalance(generation, count=generation)
    figures = {"last_heartbeat_age_ms": age_ms, "session_timeout_ms": 6_000}
    for name in "ab":
        log.add(Kind.TRIGGER, 500, generation=3, trigger="EXPIRE_HEARTBEAT", member_id=f"{name}-id", client_id=name, evidence=figures)
    log.rebalance(4, count=1)
    assert judge(log.lines)["g"][-1].cause is cause
