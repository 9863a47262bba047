"""The membership of the consumer protocol, answered by hand. Groups of members are in tests/simulation."""

from typing import Any

import pytest

from ottla.client.membership.consumer_membership import ConsumerMembership
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.values import (
    ConsumerGroupHeartbeat,
    ConsumerGroupHeartbeatResponse,
    FindCoordinator,
    GroupSettings,
    MemberState,
)
from ottla.client.reactions import CONSUMER_GROUP_HEARTBEAT, Reaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

T, U = "t" * 22, "u" * 22


class Member:
    """A member that has found its coordinator and subscribes to t."""

    def __init__(self, **settings: Any) -> None:
        self.now = 0.0
        group = GroupSettings(group_id="g", is_consumer_protocol=True, **settings)
        self.evidence = Evidence(group, now_ms=0)
        self.it = ConsumerMembership(group, evidence=self.evidence, now_ms=0, rng=lambda: 0.5)
        self.it.on_coordinator(0, 0)
        self.it.on_topic_ids({T: "t"})
        self.it.subscribe(frozenset({"t"}))
        self.it.prepared({})

    def sent(self, after_ms: float = 0) -> ConsumerGroupHeartbeat | None:
        self.now += after_ms
        self.it.poll(self.now)
        requests = self.it.next_requests(self.now)
        assert len(requests) <= 1
        return next((each for each in requests if isinstance(each, ConsumerGroupHeartbeat)), None)

    def answer(self, request: Any, epoch: int = 1, assignment: Any = None, error: ErrorCode = ErrorCode.NONE, message: str = "") -> None:
        response = ConsumerGroupHeartbeatResponse(
            error=error, message=message, member_epoch=epoch, heartbeat_interval_ms=1_000, assignment=assignment
        )
        self.it.on_response(request, response, self.now)

    def owning(self, *numbers: int) -> "Member":
        self.answer(self.sent(), assignment={T: numbers})
        assert self.it.assigned is not None
        self.it.took_over(self.it.assigned)
        self.answer(self.sent())
        return self


def test_a_join_says_everything_and_later_heartbeats_what_is_new() -> None:
    member = Member(rack="a", remote_assignor="range", max_poll_interval_ms=7_000)
    join = member.sent()
    assert join is not None
    assert (join.member_epoch, join.topics, join.regex, join.owned) == (0, ("t",), "", {})
    assert (join.rack, join.assignor, join.rebalance_timeout_ms) == ("a", "range", 7_000)
    member.answer(join, assignment={T: [0, 1]})
    assert (member.it.generation, member.it.state) == (1, MemberState.RECONCILING)
    assert member.it.assigned is not None
    assert member.it.assigned.partitions == {"t": [0, 1]}
    member.it.took_over(member.it.assigned)
    acknowledged = member.sent()
    assert acknowledged is not None
    assert (acknowledged.owned, acknowledged.topics, acknowledged.rebalance_timeout_ms) == ({T: [0, 1]}, None, -1)
    assert member.it.state is MemberState.STABLE, "from the sending on, as Kafka's client"
    member.answer(acknowledged)
    assert member.it.state is MemberState.STABLE
    assert member.sent(999) is None
    kept = member.sent(31)
    assert member.evidence.heartbeat_delays.maximum(member.now) == 30
    assert kept is not None
    assert (kept.owned, kept.topics, kept.regex) == (None, None, None)
    member.answer(kept)
    member.it.subscribe(frozenset(), "^t.*")
    changed = member.sent()
    assert changed is not None
    assert (changed.topics, changed.regex, changed.owned) == ((), "^t.*", None)


def test_nothing_is_taken_over_until_what_was_said_to_be_owned_is_answered() -> None:
    member = Member()
    member.answer(member.sent(), assignment={T: [0]})
    member.it.coordinator_lost(member.now)
    member.it.on_coordinator(1, member.now)
    assert member.it.assigned is not None
    full = member.sent(2_000)
    assert full is not None
    assert (full.owned, full.member_epoch, full.topics) == ({}, 1, ("t",))
    assert member.it.assigned is None, "the coordinator may give it to another member now"
    member.answer(full, epoch=2, assignment={})
    assert member.it.assigned is not None
    assert member.it.assigned.partitions == {}


def test_a_revocation_is_acknowledged_when_it_is_over() -> None:
    member = Member().owning(0, 1)
    member.answer(member.sent(1_000), assignment={T: [0]})
    kept = member.sent(1_000)
    assert kept is not None
    assert kept.owned is None
    member.answer(kept)
    claim = member.it.claim
    member.it.gave_up([TopicPartition("t", 1)])
    assert member.it.claim == claim, "what was processed may be committed before the next heartbeat"
    acknowledged = member.sent()
    assert acknowledged is not None
    assert acknowledged.owned == {T: [0]}
    assert member.it.claim != claim
    assert member.it.is_cooperative, "the others stay"


def test_a_topic_without_a_name_waits_for_it_and_one_that_was_made_again_is_another() -> None:
    member = Member().owning(0)
    member.answer(member.sent(1_000), assignment={T: [0], U: [0]})
    assert (member.it.assigned, member.it.unknown_topic_ids, member.it.state) == (None, {U}, MemberState.RECONCILING)
    member.it.on_topic_ids({U: "u"})
    assert member.it.assigned is not None
    assert member.it.assigned.partitions == {"t": [0], "u": [0]}
    member.it.on_topic_ids({"v" * 22: "t"})
    member.answer(member.sent(1_000), assignment={"v" * 22: [0]})
    assert member.it.assigned is not None
    assert (member.it.assigned.partitions, member.it.assigned.renewed) == ({"t": [0]}, {"t"})


@pytest.mark.parametrize("error", [ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID])
def test_a_member_that_was_removed_gives_up_all_and_joins_again_with_its_id(error: ErrorCode) -> None:
    member = Member().owning(0)
    member_id = member.it.member_id
    member.answer(member.sent(1_000), error=error)
    assert (member.it.must_prepare, member.it.has_lost_partitions, member.it.identity) == (True, True, (-1, ""))
    assert member.sent() is None, "not before the application has given up its partitions"
    member.it.prepared({})
    join = member.sent()
    assert join is not None
    assert (join.member_epoch, join.member_id, join.owned) == (0, member_id, {})


@pytest.mark.parametrize("error", sorted(CONSUMER_GROUP_HEARTBEAT.named))
def test_every_error_is_told_or_followed_by_another_heartbeat(error: ErrorCode) -> None:
    member = Member().owning(0)
    for _ in range(10):
        request = member.sent(1_100)
        if request is None:
            if member.it.must_prepare:
                member.it.prepared({})
            if member.it.coordinator is None:
                member.it.on_coordinator(0, member.now)
            continue
        member.answer(request, error=error, message="why")
    if CONSUMER_GROUP_HEARTBEAT.of(error) is Reaction.END:
        assert [member.it.take_failure() for _ in range(2)] == [error, error]
        assert (member.it.failure_text, member.it.is_over, member.it.next_ms()) == ("why", True, None)
    else:
        assert member.it.take_failure() is None


def test_a_wrong_pattern_is_told_and_another_subscription_helps() -> None:
    member = Member().owning(0)
    member.it.subscribe(frozenset(), "^[")
    member.answer(member.sent(), error=ErrorCode.INVALID_REGULAR_EXPRESSION, message="missing closing ]")
    assert (member.it.take_failure(), member.it.failure_text) == (ErrorCode.INVALID_REGULAR_EXPRESSION, "missing closing ]")
    member.it.subscribe(frozenset({"t"}))
    full = member.sent(1_000)
    assert full is not None
    assert (full.member_epoch, full.regex, full.topics, full.owned) == (1, "", ("t",), {T: [0]})


@pytest.mark.parametrize(("instance_id", "epoch"), [(None, -1), ("i", -2)])
def test_leaving_and_a_late_poll(instance_id: str | None, epoch: int) -> None:
    member = Member(instance_id=instance_id, max_poll_interval_ms=5_000).owning(0)
    member.now += 5_000
    (left,) = member.it.next_requests(member.now)
    assert isinstance(left, ConsumerGroupHeartbeat)
    assert (left.member_epoch, left.is_leave, member.it.has_poll_expired, member.it.must_prepare) == (epoch, True, True, True)
    member = Member(instance_id=instance_id).owning(0)
    member.it.leave("closed")
    assert member.it.is_leaving
    left_too = member.sent()
    assert left_too is not None
    assert left_too.member_epoch == epoch
    assert member.it.next_ms() is None


def test_a_refused_commit_brings_the_next_heartbeat_at_once() -> None:
    member = Member().owning(0)
    assert member.sent() is None
    assert not member.it.commit_refused(ErrorCode.STALE_MEMBER_EPOCH, 1, member.it.member_id, member.now)
    assert member.sent() is not None


def test_a_heartbeat_that_is_lost_is_followed_by_a_full_one_to_the_coordinator_that_is_found() -> None:
    member = Member().owning(0)
    lost = member.sent(1_000)
    assert lost is not None
    member.it.on_no_response(lost, member.now)
    assert member.it.coordinator is None
    (search,) = member.it.next_requests(member.now)
    assert isinstance(search, FindCoordinator)
    member.it.on_no_response(search, member.now)
    assert member.it.next_requests(member.now) == [], "after a back-off"
    (search,) = member.it.next_requests(member.now + 1_000)
    member.it.on_coordinator(0, member.now + 1_000)
    full = member.sent(1_000)
    assert full is not None
    assert (full.member_epoch, full.topics, full.owned) == (1, ("t",), {T: [0]})
    member.it.on_response(lost, ConsumerGroupHeartbeatResponse(error=ErrorCode.UNKNOWN_MEMBER_ID), member.now)
    assert member.it.generation == 1, "an answer that comes too late says nothing"


def test_losses_in_a_row_are_followed_by_longer_pauses() -> None:
    member, pauses = Member().owning(0), []
    for _ in range(7):
        request = member.sent(1_000)
        assert request is not None
        member.it.on_no_response(request, member.now)
        member.it.on_coordinator(0, member.now)
        due_ms = member.it.next_ms()
        assert due_ms is not None
        pauses.append(due_ms - member.now)
    assert pauses == [0, 0, 0, 100, 200, 400, 800]
