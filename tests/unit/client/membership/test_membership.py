"""The membership of one consumer, driven by hand in virtual time. Groups: tests/simulation (Kafka: AbstractCoordinatorTest)."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from ottla.client.membership.evidence import Evidence
from ottla.client.membership.membership import HeartbeatTimers, Membership, make_assignments
from ottla.client.membership.values import (
    FindCoordinator,
    GroupSettings,
    Heartbeat,
    JoinedMember,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    MemberState,
    SyncGroup,
    SyncResponse,
)
from ottla.groups.assignors import NO_RACKS, Assignment, Assignor, Racks, Subscriber, assignors
from ottla.groups.assignors._checks import AssignorError
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.wire.consumer_protocol import encode_assignment, encode_subscription, parse_assignment, parse_subscription

SETTINGS: dict[str, Any] = {
    "group_id": "g",
    "session_timeout_ms": 6_000,
    "heartbeat_interval_ms": 2_000,
    "max_poll_interval_ms": 20_000,
}


class Driven:
    """A membership and the requests that it has made."""

    def __init__(self, *names: str, **settings: Any) -> None:
        self.now = 0.0
        chosen = [assignors()[name] for name in names or ("range",)]
        group = GroupSettings(**(SETTINGS | settings))
        self.evidence = Evidence(group, now_ms=0)
        self.member = Membership(group, chosen, evidence=self.evidence, now_ms=0, rng=lambda: 0.5)

    def next(self, kind: type[Any], after_ms: float = 0) -> Any:
        """The one request that is due."""
        self.now += after_ms
        requests = self.member.next_requests(self.now)
        assert [type(each) for each in requests] == [kind]
        return requests[0]

    def nothing(self, after_ms: float = 0) -> None:
        self.now += after_ms
        assert self.member.next_requests(self.now) == []

    def start(self, *topics: str, partitions: dict[str, int] | None = None) -> "Driven":
        """Subscribed, with metadata, the coordinator found."""
        self.member.subscribe(frozenset(topics or ("t",)))
        self.member.on_metadata(partitions or {"t": 2})
        self.next(FindCoordinator)
        self.member.on_coordinator(1, self.now)
        return self

    def prepare(self, owned: dict[str, list[int]] | None = None) -> JoinGroup:
        assert self.member.must_prepare
        self.member.prepared(owned or {})
        join: JoinGroup = self.next(JoinGroup)
        return join

    def joined(self, join: JoinGroup, generation: int = 1, leader: str = "other", members: tuple[JoinedMember, ...] = ()) -> SyncGroup:
        response = JoinResponse(error=E.NONE, generation=generation, protocol_name="range", leader=leader, member_id="me", members=members)
        self.member.on_join(join, response, self.now)
        sync: SyncGroup = self.next(SyncGroup)
        return sync

    def stable(self, generation: int = 1, leader: str = "other") -> "Driven":
        """A member of a generation, with partition 0."""
        members = (JoinedMember("me", None, encode_subscription({"t"}, owned={}, generation=-1)),) if leader == "me" else ()
        sync = self.joined(self.prepare(), generation, leader, members)
        self.member.on_sync(sync, SyncResponse(error=E.NONE, assignment=encode_assignment({"t": [0]})), self.now)
        self.member.completed()
        assert self.member.state is MemberState.STABLE
        return self


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testJoinGroupRequestWithMemberIdRequired",
    "AbstractCoordinatorTest.testRejoinReason",
    "ConsumerCoordinatorTest.testNormalJoinGroupFollower",
)
def test_a_member_finds_its_coordinator_joins_and_gets_its_part() -> None:
    driven = Driven().start()
    join = driven.prepare()
    assert (join.member_id, join.reason, [name for name, _ in join.protocols]) == ("", "", ["range"])
    assert (join.session_timeout_ms, join.rebalance_timeout_ms) == (6_000, 20_000)
    driven.member.on_join(join, JoinResponse(error=E.MEMBER_ID_REQUIRED, member_id="me"), 0)
    again = driven.next(JoinGroup)
    assert (again.member_id, again.reason) == ("me", "need to re-join with the given member-id: me")
    sync = driven.joined(again, 4)
    assert (sync.generation, sync.member_id, sync.protocol_name, sync.assignments) == (4, "me", "range", ())
    driven.member.on_sync(sync, SyncResponse(error=E.NONE, assignment=encode_assignment({"t": [1]})), 0)
    assert driven.member.assigned is not None
    assert driven.member.assigned.partitions == {"t": (1,)}
    driven.member.completed()
    driven.nothing()


def test_nothing_is_sent_before_the_metadata_is_there() -> None:
    driven = Driven()
    driven.member.subscribe(frozenset({"t"}))
    driven.next(FindCoordinator)
    driven.member.on_coordinator(1, 0)
    driven.member.prepared({})
    driven.nothing()
    driven.member.on_metadata({"t": 1})
    driven.next(JoinGroup)


@pytest.mark.conformance("ConsumerCoordinatorTest.testNormalJoinGroupLeader")
def test_the_leader_assigns() -> None:
    driven = Driven().start()
    members = tuple(JoinedMember(name, None, encode_subscription({"t"}, owned={}, generation=-1)) for name in ("me", "you"))
    sync = driven.joined(driven.prepare(), 1, "me", members)
    assert {name: parse_assignment(data) for name, data in sync.assignments} == {"me": {"t": (0,)}, "you": {"t": (1,)}}


def test_a_subscription_of_another_member_that_cannot_be_read_fails_the_poll() -> None:
    assert "version -1" in str(failure_of_leading(JoinedMember("me", None, ME), JoinedMember("you", None, b"\xff\xff")))


ME = encode_subscription({"t"}, owned={}, generation=-1)


@pytest.mark.parametrize("names", [(), ("you",), ("me", "me")])
def test_a_leader_that_is_no_member_or_a_member_twice_fails_the_poll(names: tuple[str, ...]) -> None:
    assert "the coordinator names" in str(failure_of_leading(*(JoinedMember(name, None, ME) for name in names)))


def failure_of_leading(*members: JoinedMember) -> object:
    """What `me` fails with as the leader of these members; it joins again later."""
    driven = Driven().start()
    join = driven.prepare()
    driven.member.on_join(
        join, JoinResponse(error=E.NONE, generation=1, protocol_name="range", leader="me", member_id="me", members=members), 0
    )
    driven.nothing(5_000)
    failure = driven.member.take_failure()
    driven.next(JoinGroup)
    return failure


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testJoinGroupRequestWithRebalanceInProgress", "AbstractCoordinatorTest.testBackoffAndRetryUponRetriableError"
)
@pytest.mark.parametrize(
    ("error", "reason"), [(E.REBALANCE_IN_PROGRESS, "RebalanceInProgress"), (E.COORDINATOR_LOAD_IN_PROGRESS, "CoordinatorLoadInProgress")]
)
def test_a_join_that_failed_is_repeated(error: E, reason: str) -> None:
    driven = Driven().start()
    driven.member.on_join(driven.prepare(), JoinResponse(error=error), 0)
    driven.nothing(50)
    assert driven.next(JoinGroup, 50).reason == f"rebalance failed due to {reason}Exception"


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testUnknownMemberId", "AbstractCoordinatorTest.testJoinGroupRequestWithGroupInstanceIdNotFound"
)
def test_a_member_that_is_unknown_joins_with_a_new_id_and_has_lost_its_partitions() -> None:
    driven = Driven().start().stable()
    heartbeat = driven.next(Heartbeat, 2_000)
    driven.member.on_heartbeat(heartbeat, E.UNKNOWN_MEMBER_ID, driven.now)
    assert driven.member.must_prepare
    assert driven.member.has_lost_partitions
    join = driven.prepare()
    assert (join.member_id, join.reason) == ("", "encountered UNKNOWN_MEMBER_ID from HEARTBEAT response")


@pytest.mark.conformance("ConsumerCoordinatorTest.testIllegalGeneration")
def test_an_illegal_generation_keeps_the_id() -> None:
    driven = Driven().start().stable()
    driven.member.on_heartbeat(driven.next(Heartbeat, 2_000), E.ILLEGAL_GENERATION, driven.now)
    assert driven.member.has_lost_partitions
    assert driven.prepare().member_id == "me"


@pytest.mark.conformance("AbstractCoordinatorTest.testHeartbeatIllegalGenerationResponseWithOldGeneration")
def test_a_heartbeat_of_an_earlier_generation_changes_nothing() -> None:
    driven = Driven().start().stable()
    old = driven.next(Heartbeat, 2_000)
    driven.member.request_rejoin("subscription has changed")
    sync = driven.joined(driven.prepare(), 2)
    driven.member.on_heartbeat(old, E.ILLEGAL_GENERATION, driven.now)
    driven.member.on_sync(sync, SyncResponse(error=E.NONE), driven.now)
    assert (driven.member.state, driven.member.generation) == (MemberState.STABLE, 2)


@pytest.mark.conformance("ConsumerCoordinatorTest.testNormalHeartbeat")
def test_a_rebalance_is_noticed_by_a_heartbeat() -> None:
    driven = Driven().start().stable()
    driven.member.on_heartbeat(driven.next(Heartbeat, 2_000), E.REBALANCE_IN_PROGRESS, driven.now)
    assert driven.member.must_prepare
    assert not driven.member.has_lost_partitions
    driven.nothing(1_999)
    assert isinstance(driven.next(Heartbeat, 1), Heartbeat), "until the application polls, the session is kept"
    join = driven.prepare({"t": [0]})
    assert join.reason == "group is already rebalancing"
    assert parse_subscription(join.protocols[0][1]).owned == {"t": (0,)}


def test_while_the_coordinator_collects_joins_no_heartbeat_is_sent() -> None:
    driven = Driven().start()
    driven.prepare()
    driven.nothing(19_000)


def test_a_session_without_answers_ends_with_another_coordinator() -> None:
    driven = Driven().start().stable()
    driven.next(Heartbeat, 2_000)
    driven.nothing(3_999)
    driven.next(FindCoordinator, 1)
    assert driven.member.coordinator is None
    driven.member.on_coordinator(2, driven.now)
    driven.next(Heartbeat, 200)
    assert driven.member.generation == 1, "the coordinator decides whether the session is over"


def test_an_application_that_does_not_poll_makes_the_member_leave() -> None:
    driven = Driven(session_timeout_ms=60_000, heartbeat_interval_ms=15_000).start().stable()
    driven.member.on_heartbeat(driven.next(Heartbeat, 15_000), E.NONE, driven.now)
    leave = driven.next(LeaveGroup, 5_000)
    evidence = "[application blocked: no poll for 20000 ms]"
    assert (leave.member_id, leave.reason) == ("me", f"consumer poll timeout has expired. {evidence}")
    assert driven.member.has_poll_expired
    assert driven.member.state is MemberState.UNJOINED
    assert driven.member.has_lost_partitions
    driven.member.poll(driven.now + 500)
    join = driven.prepare()
    assert join.reason == "consumer pro-actively leaving the group [application blocked: no poll for 20500 ms]"
    driven.member.on_join(join, JoinResponse(error=E.MEMBER_ID_REQUIRED, member_id="new"), driven.now)
    again = driven.next(JoinGroup)
    assert again.reason == "need to re-join with the given member-id: new [application blocked: no poll for 20500 ms]"
    driven.joined(again)
    assert driven.evidence.text == evidence.strip("[]").replace("20000", "20500"), "until the group is stable"


def test_a_member_id_is_taken_at_once_however_much_failed_before() -> None:
    """The coordinator keeps a member id that it has given for one session timeout: a back-off of that length would begin all over again."""
    driven = Driven(session_timeout_ms=1_000, heartbeat_interval_ms=300).start().stable()
    for number in range(12):
        driven.member.on_heartbeat(driven.next(Heartbeat, 300), E.UNKNOWN_MEMBER_ID, driven.now) if number == 0 else None
        driven.now += 1_000
        join = driven.prepare() if driven.member.must_prepare else driven.next(JoinGroup)
        assert join.member_id == ""
        driven.member.on_join(join, JoinResponse(error=E.MEMBER_ID_REQUIRED, member_id=f"me-{number}"), driven.now)
        again = driven.next(JoinGroup)
        assert again.member_id == f"me-{number}"
        driven.member.on_join(again, JoinResponse(error=E.UNKNOWN_MEMBER_ID), driven.now)
    # One that never takes a member id that it has given is asked again after a back-off only.
    driven.now += 1_000
    driven.member.on_join(driven.prepare(), JoinResponse(error=E.MEMBER_ID_REQUIRED, member_id="me"), driven.now)
    for _ in range(3):
        driven.member.on_join(driven.next(JoinGroup), JoinResponse(error=E.MEMBER_ID_REQUIRED, member_id="me"), driven.now)
        driven.nothing(500)
        driven.now += 500


def test_a_static_member_that_does_not_poll_sends_no_leave() -> None:
    driven = Driven(instance_id="i", session_timeout_ms=60_000, heartbeat_interval_ms=30_000).start().stable()
    driven.nothing(20_000)
    driven.nothing()
    assert driven.member.has_lost_partitions


def test_heartbeats_of_a_quiet_time_can_be_skipped() -> None:
    driven = Driven(max_poll_interval_ms=10_000_000).start().stable()
    driven.now = 3_600_000
    driven.member.skip_heartbeats(driven.now)
    driven.nothing(1_999)
    driven.member.on_heartbeat(driven.next(Heartbeat, 1), E.NONE, driven.now)
    driven.now += 3_600_000
    driven.member.skip_heartbeats(driven.now, is_due=True)
    driven.next(Heartbeat)
    driven.next(FindCoordinator, 6_000)


def test_heartbeats_that_were_skipped_say_nothing_of_polls() -> None:
    driven = Driven().start().stable()
    driven.member.poll(5_000)
    assert driven.member.poll_due_ms == 25_000
    driven.member.skip_heartbeats(25_000)
    driven.next(LeaveGroup, 25_000)
    assert driven.member.has_poll_expired


def test_the_session_is_checked_before_the_polls() -> None:
    driven = Driven(max_poll_interval_ms=6_000).start().stable()
    driven.next(FindCoordinator, 6_000)
    assert not driven.member.has_poll_expired


@pytest.mark.conformance("ConsumerCoordinatorTest.testCoordinatorNotAvailable", "ConsumerCoordinatorTest.testNotCoordinator")
@pytest.mark.parametrize("error", [E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_moved_is_found_again(error: E) -> None:
    driven = Driven().start().stable()
    driven.member.on_heartbeat(driven.next(Heartbeat, 2_000), error, driven.now)
    driven.next(FindCoordinator)


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testRetainMemberIdAfterJoinGroupDisconnect", "ConsumerCoordinatorTest.testDisconnectInJoin"
)
def test_a_lost_connection_fails_the_join_and_keeps_the_member_id() -> None:
    driven = Driven().start().stable()
    driven.member.request_rejoin("subscription has changed")
    join = driven.prepare()
    driven.member.on_no_response(join, driven.now)
    driven.next(FindCoordinator)
    driven.member.on_coordinator(1, driven.now)
    again = driven.next(JoinGroup, 100)
    assert (again.member_id, again.reason) == ("me", "rebalance failed due to DisconnectException")
    driven.member.on_no_response(join, driven.now)
    assert driven.member.coordinator == 1, "what is known to be over does not count twice"


@pytest.mark.conformance("AbstractCoordinatorTest.testRetainMemberIdAfterSyncGroupDisconnect")
def test_a_lost_connection_fails_the_sync() -> None:
    driven = Driven().start()
    driven.member.on_no_response(driven.joined(driven.prepare()), driven.now)
    driven.next(FindCoordinator)
    driven.member.on_coordinator(1, driven.now)
    assert driven.next(JoinGroup, 100).member_id == "me"


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testCoordinatorDiscoveryExponentialBackoff",
    "AbstractCoordinatorTest.testLookupCoordinator",
    "ConsumerCoordinatorTest.testGroupDescribeUnauthorized",
)
def test_a_coordinator_that_is_not_found_is_looked_for_after_a_back_off() -> None:
    driven = Driven()
    driven.member.subscribe(frozenset({"t"}))
    driven.next(FindCoordinator)
    driven.member.on_no_coordinator(E.COORDINATOR_NOT_AVAILABLE, 0)
    driven.nothing(99)
    second = driven.next(FindCoordinator, 1)
    driven.member.on_no_response(second, driven.now)
    driven.nothing(199)
    driven.next(FindCoordinator, 1)
    driven.member.on_no_coordinator(E.GROUP_AUTHORIZATION_FAILED, driven.now)
    assert driven.member.take_failure() is E.GROUP_AUTHORIZATION_FAILED


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testGroupMaxSizeExceptionIsFatal",
    "ConsumerCoordinatorTest.testJoinGroupInvalidGroupId",
    "ConsumerCoordinatorTest.testInvalidSessionTimeout",
)
@pytest.mark.parametrize("error", [E.GROUP_MAX_SIZE_REACHED, E.INCONSISTENT_GROUP_PROTOCOL, E.INVALID_SESSION_TIMEOUT, E.INVALID_GROUP_ID])
def test_a_refused_join_fails_the_poll_and_is_tried_again_after_it(error: E) -> None:
    driven = Driven().start()
    driven.member.on_join(driven.prepare(), JoinResponse(error=error), 0)
    driven.nothing(10_000)
    assert driven.member.take_failure() is error
    driven.next(JoinGroup)


@pytest.mark.conformance("AbstractCoordinatorTest.testHeartbeatRequestWithFencedInstanceIdException")
def test_a_fenced_member_fails_for_good() -> None:
    driven = Driven(instance_id="i").start().stable()
    driven.member.on_heartbeat(driven.next(Heartbeat, 2_000), E.FENCED_INSTANCE_ID, driven.now)
    assert [driven.member.take_failure() for _ in range(2)] == [E.FENCED_INSTANCE_ID] * 2
    driven.nothing(60_000)


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testUnknownMemberIdOnSyncGroup",
    "ConsumerCoordinatorTest.testRebalanceInProgressOnSyncGroup",
    "ConsumerCoordinatorTest.testIllegalGenerationOnSyncGroup",
    "ConsumerCoordinatorTest.testPrepareJoinAndRejoinAfterFailedRebalance",
)
@pytest.mark.parametrize(
    ("error", "keeps"), [(E.REBALANCE_IN_PROGRESS, ("me", 1)), (E.UNKNOWN_MEMBER_ID, ("", -1)), (E.ILLEGAL_GENERATION, ("me", -1))]
)
def test_a_refused_sync_is_followed_by_a_join(error: E, keeps: tuple[str, int]) -> None:
    driven = Driven().start()
    driven.member.on_sync(driven.joined(driven.prepare()), SyncResponse(error=error), 0)
    assert (driven.member.member_id, driven.member.generation) == keeps
    if driven.member.must_prepare:
        driven.member.prepared({})
    driven.next(JoinGroup)


@pytest.mark.conformance("ConsumerCoordinatorTest.testRejoinGroup")
def test_another_subscription_means_another_join() -> None:
    driven = Driven().start().stable()
    driven.member.subscribe(frozenset({"t", "u"}))
    join = driven.prepare()
    assert join.reason == "subscription has changed"
    assert parse_subscription(join.protocols[0][1]).topics == ("t", "u")


def test_a_subscription_that_changes_during_the_join_is_joined_with_afterwards() -> None:
    driven = Driven().start()
    join = driven.prepare()
    driven.member.subscribe(frozenset({"u"}))
    driven.member.on_sync(driven.joined(join), SyncResponse(error=E.NONE), 0)
    driven.member.completed()
    assert parse_subscription(driven.prepare().protocols[0][1]).topics == ("u",)


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testRebalanceWithMetadataChange",
    "ConsumerCoordinatorTest.testMetadataChangeTriggersRebalance",
    "ConsumerCoordinatorTest.testRebalanceAfterNotMatchingTopicUnavailableWithPatternSubscribe",
)
def test_the_leader_notices_new_partitions() -> None:
    driven = Driven().start().stable(leader="me")
    driven.member.on_metadata({"t": 2, "other": 5})
    assert not driven.member.must_prepare, "no member reads the other topic"
    driven.member.on_metadata({"t": 3})
    assert driven.prepare().reason == "cached metadata has changed"


def test_other_members_leave_new_partitions_to_the_leader() -> None:
    driven = Driven().start().stable()
    driven.member.on_metadata({"t": 3})
    assert not driven.member.must_prepare


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testLeaveGroupSentWithGroupInstanceIdUnSet",
    "ConsumerCoordinatorTest.testLeaveGroupOnClose",
    "ConsumerCoordinatorTest.testMaybeLeaveGroup",
)
def test_leaving() -> None:
    driven = Driven().start().stable()
    driven.member.leave("the consumer is being closed")
    assert driven.member.is_leaving
    assert driven.next(LeaveGroup).reason == "the consumer is being closed"
    driven.nothing(100_000)


def test_a_static_member_stays_in_the_group() -> None:
    driven = Driven(instance_id="i").start().stable()
    driven.member.leave("the consumer is being closed")
    driven.nothing(100_000)


def test_an_assignment_that_cannot_be_read_fails_the_poll() -> None:
    driven = Driven().start()
    driven.member.on_sync(driven.joined(driven.prepare()), SyncResponse(error=E.NONE, assignment=b"\xff\xff"), 0)
    assert driven.member.state is MemberState.UNJOINED
    assert "version -1" in str(driven.member.take_failure())
    driven.next(JoinGroup, 1_000)


@pytest.mark.conformance("AbstractCoordinatorTest.testJoinGroupProtocolTypeAndName")
def test_a_protocol_that_the_member_does_not_have_fails_the_poll() -> None:
    driven = Driven().start()
    response = JoinResponse(error=E.NONE, generation=1, protocol_name="other", leader="me", member_id="me")
    driven.member.on_join(driven.prepare(), response, 0)
    assert driven.member.take_failure() is E.INCONSISTENT_GROUP_PROTOCOL


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetIllegalGeneration",
    "ConsumerCoordinatorTest.testCommitOffsetUnknownMemberId",
    "ConsumerCoordinatorTest.testCommitOffsetIllegalGenerationShouldResetGenerationId",
    "ConsumerCoordinatorTest.testCommitOffsetUnknownMemberShouldResetToNoGeneration",
)
@pytest.mark.parametrize("error", [E.UNKNOWN_MEMBER_ID, E.ILLEGAL_GENERATION])
def test_a_commit_that_is_refused_ends_the_membership(error: E) -> None:
    driven = Driven().start().stable()
    assert not driven.member.commit_refused(error, 1, "me", driven.now)
    assert driven.member.has_lost_partitions
    assert driven.member.must_prepare


@pytest.mark.conformance("ConsumerCoordinatorTest.testCommitOffsetRebalanceInProgress")
def test_a_commit_during_a_rebalance_asks_for_a_join() -> None:
    driven = Driven().start().stable()
    assert driven.member.commit_refused(E.REBALANCE_IN_PROGRESS, 1, "me", driven.now)
    assert driven.prepare().reason == "offset commit failed since group is already rebalancing"


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetIllegalGenerationWithNewGeneration",
    "ConsumerCoordinatorTest.testCommitOffsetUnknownMemberWithNewGeneration",
)
def test_a_commit_of_an_earlier_generation_changes_nothing() -> None:
    driven = Driven().start().stable(generation=2)
    assert not driven.member.commit_refused(E.ILLEGAL_GENERATION, 1, "me", driven.now)
    assert not driven.member.must_prepare


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetRequestSyncWithFencedInstanceIdException",
    "ConsumerCoordinatorTest.testCommitOffsetRequestAsyncWithFencedInstanceIdException",
    "ConsumerCoordinatorTest.testCommitOffsetRequestAsyncAlwaysReceiveFencedException",
)
def test_a_fenced_commit_is_fatal() -> None:
    driven = Driven(instance_id="i").start().stable()
    driven.member.commit_refused(E.FENCED_INSTANCE_ID, 1, "me", driven.now)
    assert driven.member.take_failure() is E.FENCED_INSTANCE_ID


@pytest.mark.conformance("ConsumerCoordinatorTest.testSelectRebalanceProtocol")
def test_the_protocol_is_cooperative_if_all_assignors_are() -> None:
    assert Driven("cooperative-sticky").member.is_cooperative
    assert not Driven("range", "cooperative-sticky").member.is_cooperative


def test_the_next_time() -> None:
    driven = Driven()
    assert driven.member.next_ms() is None
    driven.start()
    driven.stable()
    assert driven.member.next_ms() == 2_000


def test_the_sticky_assignor_gets_what_a_member_had() -> None:
    driven = Driven("sticky").start()
    first = driven.prepare()
    assert parse_subscription(first.protocols[0][1]).user_data is None
    response = JoinResponse(error=E.NONE, generation=3, protocol_name="sticky", leader="other", member_id="me")
    driven.member.on_join(first, response, 0)
    sync = driven.next(SyncGroup)
    driven.member.on_sync(sync, SyncResponse(error=E.NONE, assignment=encode_assignment({"t": [1]})), 0)
    driven.member.completed()
    driven.member.request_rejoin("group is already rebalancing")
    read = parse_subscription(driven.prepare().protocols[0][1])
    assert read.owned == {}
    assert read.user_data == assignors()["sticky"].user_data({"t": (1,)}, 3)


def test_a_leader_with_a_rack_notices_replicas_that_moved() -> None:
    for rack, notices in (("r", True), ("", False)):
        driven = Driven(rack=rack).start().stable(leader="me")
        driven.member.on_metadata({"t": 2}, {"t": [frozenset({"r"}), frozenset()]})
        assert driven.member.must_prepare is notices


TIMER_SETTINGS = GroupSettings(group_id="g", session_timeout_ms=6_000, heartbeat_interval_ms=2_000, max_poll_interval_ms=20_000)


@pytest.mark.conformance("HeartbeatTest.testShouldHeartbeat", "HeartbeatTest.testShouldNotHeartbeat")
def test_a_heartbeat_is_due_after_its_interval_and_once() -> None:
    timers = HeartbeatTimers(TIMER_SETTINGS, 0)
    assert not timers.is_due(1_999)
    assert timers.is_due(2_000)
    timers.sent(2_000)
    assert not timers.is_due(4_000), "one is in flight"
    timers.succeeded(4_500)
    assert timers.is_due(4_500), "the interval counts from when it was sent"


def test_a_failed_heartbeat_is_repeated_after_a_back_off() -> None:
    timers = HeartbeatTimers(TIMER_SETTINGS, 0)
    timers.sent(2_000)
    timers.failed(2_010, 0.5)
    assert not timers.is_due(2_100)
    assert timers.is_due(2_110)
    timers.sent(2_110)
    timers.failed(2_120, 0.5)
    assert timers.next_ms() == 2_320, "the back-off doubles"


@pytest.mark.conformance("HeartbeatTest.testSessionTimeoutExpired", "HeartbeatTest.testResetSession")
def test_a_session_ends_without_an_answer() -> None:
    timers = HeartbeatTimers(TIMER_SETTINGS, 0)
    assert not timers.is_session_over(5_999)
    assert timers.is_session_over(6_000)
    timers.reset_session(6_000)
    assert not timers.is_session_over(11_999)


@pytest.mark.conformance("HeartbeatTest.testPollTimeout")
def test_polls_reset_their_own_timer_alone() -> None:
    timers = HeartbeatTimers(TIMER_SETTINGS, 0)
    timers.poll(10_000)
    assert timers.is_session_over(10_000)
    assert not timers.is_poll_over(29_999)
    assert timers.is_poll_over(30_000)


@pytest.mark.conformance("HeartbeatTest.testTimeToNextHeartbeat", "HeartbeatTest.testResetTimeouts")
def test_the_next_time_is_that_of_the_first_timer() -> None:
    timers = HeartbeatTimers(TIMER_SETTINGS, 0)
    assert timers.next_ms() == 2_000
    timers.sent(2_000)
    assert timers.next_ms() == 6_000
    timers.reset(7_000)
    assert timers.next_ms() == 9_000


RANGE = assignors()["range"]


def member(name: str, *topics: str, owned: Mapping[str, Sequence[int]] | None = None, generation: int = -1) -> JoinedMember:
    return JoinedMember(name, None, encode_subscription(topics, owned=owned or {}, generation=generation))


def test_every_member_gets_its_part() -> None:
    made = make_assignments(RANGE, [member("a", "t"), member("b", "t", "u")], {"t": 3, "u": 1, "other": 9})
    assert {name: parse_assignment(data) for name, data in made.assignments} == {"a": {"t": (0, 1)}, "b": {"t": (2,), "u": (0,)}}
    assert made.topics == {"t", "u"}


@pytest.mark.conformance("ConsumerCoordinatorTest.testSubscriptionChangeWithAuthorizationFailure")
def test_a_topic_without_metadata_is_left_out() -> None:
    made = make_assignments(RANGE, [member("a", "t", "new")], {"t": 1})
    assert parse_assignment(made.assignments[0][1]) == {"t": (0,)}
    assert made.topics == {"t", "new"}, "so that its metadata is asked for"


class Hasty(Assignor):
    """Takes partitions from members that still own them."""

    name = "hasty"
    is_cooperative = True

    def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
        return {each.member_id: {"t": [0]} if each.member_id == "b" else {} for each in members}


@pytest.mark.conformance("ConsumerCoordinatorTest.testPerformAssignmentShouldValidateCooperativeAssignment")
def test_a_cooperative_assignor_must_wait_for_the_owner() -> None:
    with pytest.raises(AssignorError, match=r"hasty .* gave t-0 to b before its owner revoked it"):
        make_assignments(Hasty(), [member("a", "t", owned={"t": [0]}, generation=3), member("b", "t")], {"t": 1})


def test_what_a_member_owned_in_an_old_generation_may_move() -> None:
    members = [member("a", "t", owned={"t": [0]}, generation=2), member("b", "t", generation=3)]
    assert dict(make_assignments(Hasty(), members, {"t": 1}).assignments)["b"]


def test_racks_and_user_data_reach_the_assignor() -> None:
    seen: list[object] = []

    class Watching(Assignor):
        name = "watching"

        def assign(self, members: Sequence[Subscriber], partitions: Mapping[str, int], racks: Racks = NO_RACKS) -> Assignment:
            seen.append((members[0].rack, racks))
            return {"a": {"t": [0]}}

        def with_user_data(self, member: Subscriber, user_data: bytes | None) -> Subscriber:
            seen.append(user_data)
            return member

    data = encode_subscription({"t"}, owned={}, generation=1, rack="r", user_data=b"u")
    made = make_assignments(Watching(), [JoinedMember("a", None, data)], {"t": 1}, {"t": [frozenset({"r"})]})
    assert seen == [b"u", ("r", {"t": [frozenset({"r"})]})]
    assert parse_assignment(made.assignments[0][1]) == {"t": (0,)}
