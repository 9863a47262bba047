"""Behaviours that Kafka's own tests of the consumer show (ConsumerCoordinatorTest, AbstractCoordinatorTest, FetcherTest), in virtual time.

Those that a test of one part shows are marked there.
"""

import re
from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.engine.commits import Commit
from ottla.client.engine.values import Fetch, ListOffsets, Metadata, OffsetAndMetadata, OffsetCommit, OffsetFetch
from ottla.client.membership.values import (
    FindCoordinator,
    Heartbeat,
    JoinedMember,
    JoinGroup,
    JoinResponse,
    LeaveGroup,
    MemberState,
    SyncGroup,
    SyncResponse,
)
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import encode_subscription, parse_subscription

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)
NewWorld = Callable[..., Any]


def member_of(new_world: NewWorld, records: int = 0, *topics: str, **settings: Any) -> Any:
    """A world whose consumer owns T0 and has got all its records."""
    world = new_world(**settings)
    world.add_records(T0, records)
    world.engine.subscribe(topics or ["t"], [])
    world.poll()
    assert world.engine.membership.state is MemberState.STABLE
    return world


def last(world: Any, kind: type) -> Any:
    """The last request of a kind that was sent or waits."""
    return [each for each in world.sent if isinstance(each, kind)][-1]


def held(world: Any, kind: type) -> Any:
    """The request of a kind that waits for its response."""
    (found,) = [send for send in world.waiting if isinstance(send.request, kind)]
    world.waiting.remove(found)
    world.silent.discard(kind)
    return found


def leave(world: Any) -> None:
    """The application closes the consumer, and runs its callbacks."""
    world.engine.leave("the consumer is being closed", world.now)
    for _ in range(5):
        callback = world.engine.next_callback(world.now)
        if callback is not None:
            world.callbacks.append((callback.kind, [each.partition for each in callback.partitions]))
        world.settle()


# Joining and synchronising.


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testTimeoutAndRetryJoinGroupIfNeeded", "AbstractCoordinatorTest.testReturnUponRetriableErrorAndExpiredTimer"
)
def test_polls_return_while_a_join_takes_long_and_send_no_second_one(new_world: NewWorld) -> None:
    world = new_world()
    world.add_records(T0, 2)
    world.silent.add(JoinGroup)
    world.engine.subscribe(["t"], [])
    assert [world.poll() for _ in range(3)] == [[], [], []]
    send = held(world, JoinGroup)
    world.engine.on_response(send, world.response(send.request), world.now)
    assert world.offsets(world.poll()) == [0, 1]
    assert world.count(JoinGroup) == 1


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testJoinGroupRequestWithFencedInstanceIdException",
    "AbstractCoordinatorTest.testSyncGroupRequestWithFencedInstanceIdException",
)
@pytest.mark.parametrize(("kind", "response"), [(JoinGroup, JoinResponse), (SyncGroup, SyncResponse)])
def test_a_fenced_member_does_not_join_again(new_world: NewWorld, kind: type, response: Any) -> None:
    world = new_world(group={"instance_id": "i"})
    world.errors[kind] = [response(error=E.FENCED_INSTANCE_ID)]
    world.engine.subscribe(["t"], [])
    world.poll()
    assert [world.engine.poll(world.now) for _ in range(2)] == [E.FENCED_INSTANCE_ID] * 2
    joins = world.count(JoinGroup)
    world.settle(60_000)
    assert world.count(JoinGroup) == joins


@pytest.mark.conformance("ConsumerCoordinatorTest.testGroupReadUnauthorized", "ConsumerCoordinatorTest.testUnexpectedErrorOnSyncGroup")
@pytest.mark.parametrize(
    ("kind", "response"),
    [(JoinGroup, JoinResponse(error=E.GROUP_AUTHORIZATION_FAILED)), (SyncGroup, SyncResponse(error=E.UNKNOWN_SERVER_ERROR))],
)
def test_an_error_of_the_group_fails_the_poll(new_world: NewWorld, kind: type, response: Any) -> None:
    world = new_world()
    world.errors[kind] = [response]
    world.engine.subscribe(["t"], [])
    world.settle()
    world.engine.next_callback(world.now)
    world.settle()
    assert world.engine.poll(world.now) is response.error
    assert world.engine.poll(world.now) is None


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testJoinGroupUnknownMemberResponseWithOldGeneration",
    "AbstractCoordinatorTest.testSyncGroupUnknownMemberResponseWithOldGeneration",
    "AbstractCoordinatorTest.testSyncGroupIllegalGenerationResponseWithOldGeneration",
)
@pytest.mark.parametrize(
    ("kind", "response"),
    [
        (JoinGroup, JoinResponse(error=E.UNKNOWN_MEMBER_ID)),
        (SyncGroup, SyncResponse(error=E.UNKNOWN_MEMBER_ID)),
        (SyncGroup, SyncResponse(error=E.ILLEGAL_GENERATION)),
    ],
)
def test_an_answer_that_is_late_changes_nothing(new_world: NewWorld, kind: type, response: Any) -> None:
    world = member_of(new_world)
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.silent.add(kind)
    world.poll()
    late = held(world, kind)
    world.engine.membership.coordinator_lost(world.now)
    world.settle()
    for _ in range(5):
        world.now += 100
        world.poll()
    membership = world.engine.membership
    before = (membership.state, membership.generation, membership.member_id)
    assert before[0] is MemberState.STABLE
    world.engine.on_response(late, response, world.now)
    assert (membership.state, membership.generation, membership.member_id) == before


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testOnLeaderElectedShouldSkipAssignment",
    "ConsumerCoordinatorTest.testStaticLeaderRejoinsGroupAndCanTriggersRebalance",
    "ConsumerCoordinatorTest.testStaticLeaderRejoinsGroupAndCanDetectMetadataChangesForOtherMembers",
    "SubscriptionStateTest.testGroupSubscribe",
)
def test_a_static_leader_that_returns_assigns_nothing_and_watches_the_topics_of_all(new_world: NewWorld) -> None:
    world = new_world(topics={"t": 1, "u": 1}, group={"instance_id": "i"}, metadata_max_age_ms=1_000)
    members = tuple(
        JoinedMember(name, "i", encode_subscription({topic}, owned={}, generation=-1)) for name, topic in (("me", "t"), ("you", "u"))
    )
    answer = JoinResponse(
        error=E.NONE, generation=7, protocol_name="range", leader="me", member_id="me", members=members, skip_assignment=True
    )
    world.errors[JoinGroup] = [answer]
    world.assignment = b"\0\0\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\xff\xff\xff\xff"
    world.engine.subscribe(["t"], [])
    world.poll()
    assert last(world, SyncGroup).assignments == ()
    assert world.engine.subscriptions.partitions.keys() == {T0}
    world.settle()
    joins = world.count(JoinGroup)
    world.logs[TopicPartition("u", 1)] = []  # a topic that the other member reads grows
    world.settle(1_000)
    world.poll()
    assert world.count(JoinGroup) == joins + 1
    assert last(world, JoinGroup).reason == "cached metadata has changed"


@pytest.mark.conformance("ConsumerCoordinatorTest.shouldUpdateConsumerGroupMetadataBeforeCallbacks")
def test_callbacks_see_the_generation_that_they_belong_to(new_world: NewWorld) -> None:
    world = member_of(new_world)
    world.engine.membership.request_rejoin("group is already rebalancing")
    seen = []
    for _ in range(4):
        world.settle()
        callback = world.engine.next_callback(world.now)
        if callback is not None:
            seen.append((callback.kind, world.engine.membership.generation))
    assert seen == [("revoked", 1), ("assigned", 2)]


# Heartbeats and the coordinator.


@pytest.mark.conformance(
    "AbstractCoordinatorTest.testHeartbeatUnknownMemberResponseWithOldGeneration",
    "AbstractCoordinatorTest.testHeartbeatInstanceFencedResponseWithOldGeneration",
    "AbstractCoordinatorTest.testHeartbeatRebalanceInProgressResponseDuringRebalancing",
)
@pytest.mark.parametrize("error", [E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID, E.REBALANCE_IN_PROGRESS])
def test_an_answer_to_a_heartbeat_of_an_earlier_generation_changes_nothing(new_world: NewWorld, error: E) -> None:
    world = member_of(new_world)
    world.silent.add(Heartbeat)
    world.settle(3_000)
    late = held(world, Heartbeat)
    world.engine.membership.request_rejoin("subscription has changed")
    world.poll()
    membership = world.engine.membership
    assert membership.generation == 2
    world.engine.on_response(late, error, world.now)
    assert (membership.state, membership.generation, membership.failure) == (MemberState.STABLE, 2, None)


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCoordinatorDisconnect",
    "ConsumerCoordinatorTest.testCoordinatorDisconnectAfterNotCoordinatorError",
    "ConsumerCoordinatorTest.testCoordinatorDisconnectAfterCoordinatorNotAvailableError",
)
@pytest.mark.parametrize("error", ["lost", E.NOT_COORDINATOR, E.COORDINATOR_NOT_AVAILABLE])
def test_a_coordinator_that_is_gone_is_looked_for_once(new_world: NewWorld, error: Any) -> None:
    world = member_of(new_world)
    found = world.count(FindCoordinator)
    world.errors[Heartbeat] = [error]
    world.settle(3_000)
    assert world.count(FindCoordinator) == found + 1
    world.settle(1_000)
    assert world.engine.membership.coordinator == 1
    assert world.count(FindCoordinator) == found + 1
    assert world.engine.membership.state is MemberState.STABLE


@pytest.mark.conformance("ConsumerCoordinatorTest.testUpdateLastHeartbeatPollWhenCoordinatorUnknown")
def test_polls_count_while_there_is_no_coordinator(new_world: NewWorld) -> None:
    world = member_of(new_world)
    world.silent.add(FindCoordinator)
    world.engine.membership.coordinator_lost(world.now)
    world.settle(299_000)
    world.engine.poll(world.now)
    world.settle(2_000)
    send = held(world, FindCoordinator)
    world.engine.on_response(send, world.response(send.request), world.now)
    world.settle()
    assert not world.engine.membership.has_poll_expired


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testNoCoordinatorDiscoveryIfPositionsKnown",
    "ConsumerCoordinatorTest.testNoCoordinatorDiscoveryIfPartitionAwaitingReset",
)
@pytest.mark.parametrize("offset", [7, -2])
def test_partitions_with_an_offset_need_no_coordinator(new_world: NewWorld, offset: int) -> None:
    world = new_world()
    world.add_records(T0, 9)
    world.engine.assign({T0: OffsetAndMetadata(offset)})
    assert world.offsets(world.poll()) == list(range(max(offset, 0), 9))
    assert world.count(FindCoordinator) == 0


# Metadata.


RACKS = [frozenset({"a"}), frozenset({"b"})]


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testRackAwareConsumerRebalanceWithDifferentRacks",
    "ConsumerCoordinatorTest.testNonRackAwareConsumerRebalanceWithDifferentRacks",
    "ConsumerCoordinatorTest.testRackAwareConsumerRebalanceWithAdditionalRacks",
    "ConsumerCoordinatorTest.testRackAwareConsumerRebalanceWithLessRacks",
    "ConsumerCoordinatorTest.testRackAwareConsumerRebalanceWithNewPartitions",
    "ConsumerCoordinatorTest.testRackAwareConsumerRebalanceWithNoMetadataChange",
    "ConsumerCoordinatorTest.testRackAwareConsumerRebalanceWithNoRackChange",
    "ConsumerCoordinatorTest.testRackAwareConsumerRebalanceWithNewReplicasOnSameRacks",
)
@pytest.mark.parametrize(
    ("rack", "partitions", "racks", "joins_again"),
    [
        ("a", 2, [frozenset({"a"}), frozenset({"c"})], True),
        ("", 2, [frozenset({"a"}), frozenset({"c"})], False),
        ("a", 2, [frozenset({"a", "c"}), frozenset({"b"})], True),
        ("a", 2, [frozenset({"a"}), frozenset()], True),
        ("a", 3, [*RACKS, frozenset({"a"})], True),
        ("", 3, [*RACKS, frozenset({"a"})], True),
        ("a", 2, RACKS, False),
    ],
)
def test_a_leader_with_a_rack_joins_again_when_racks_of_replicas_change(
    new_world: NewWorld, rack: str, partitions: int, racks: Any, joins_again: bool
) -> None:
    world = new_world(topics={"t": 2}, group={"rack": rack})
    membership = world.engine.membership
    membership.on_metadata({"t": 2}, {"t": RACKS})
    membership.subscribe(frozenset({"t"}))
    world.settle()
    membership.prepared({})
    join = next(each for each in membership.next_requests(world.now) if isinstance(each, JoinGroup))
    membership.on_join(join, world.response(join), world.now)
    sync = next(each for each in membership.next_requests(world.now) if isinstance(each, SyncGroup))
    membership.on_sync(sync, world.response(sync), world.now)
    membership.completed()
    membership.on_metadata({"t": partitions}, {"t": racks})
    assert membership.must_prepare is joins_again


@pytest.mark.conformance("ConsumerCoordinatorTest.testSubscriptionRackId")
def test_the_subscription_names_the_rack(new_world: NewWorld) -> None:
    world = member_of(new_world, group={"rack": "a"})
    assert parse_subscription(last(world, JoinGroup).protocols[0][1]).rack == "a"


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testMetadataRefreshDuringRebalance",
    "ConsumerCoordinatorTest.testForceMetadataRefreshForPatternSubscriptionDuringRebalance",
    "ConsumerCoordinatorTest.testForceMetadataDeleteForPatternSubscriptionDuringRebalance",
    "ConsumerCoordinatorTest.testUpdateMetadataDuringRebalance",
)
@pytest.mark.parametrize("is_new", [True, False])
def test_topics_that_change_during_a_rebalance_are_joined_with_after_it(new_world: NewWorld, is_new: bool) -> None:
    world = new_world(topics={"t": 1} if is_new else {"t": 1, "u": 1}, metadata_max_age_ms=1_000)
    world.silent.add(SyncGroup)
    world.engine.subscribe([], [re.compile("^[tu]$")])
    world.poll()
    if is_new:
        world.logs[U0] = []
    else:
        del world.logs[U0]
    world.silent.add(ListOffsets)
    world.settle(1_000)
    send = held(world, SyncGroup)
    world.engine.on_response(send, world.response(send.request), world.now)
    for _ in range(3):
        world.poll()
    assert world.engine.subscriptions.partitions.keys() == ({T0, U0} if is_new else {T0})


@pytest.mark.conformance("ConsumerCoordinatorTest.testMetadataTopicsDuringSubscriptionChange")
def test_topics_of_the_old_assignment_and_of_the_new_subscription_are_of_interest(new_world: NewWorld) -> None:
    world = member_of(new_world, topics={"t": 1, "u": 1}, metadata_max_age_ms=1_000)
    world.engine.subscribe(["u"], [])
    world.settle(1_000)
    assert last(world, Metadata).topics == ("t", "u")
    world.poll()
    world.poll()
    world.settle(1_000)
    assert last(world, Metadata).topics == ("u",)


# Commits.


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testOnJoinPrepareWithOffsetCommitShouldSuccessAfterRetry",
    "ConsumerCoordinatorTest.testJoinPrepareAndCommitWithCoordinatorNotAvailable",
)
@pytest.mark.parametrize("error", [E.COORDINATOR_LOAD_IN_PROGRESS, E.COORDINATOR_NOT_AVAILABLE])
def test_a_commit_before_a_join_is_tried_again(new_world: NewWorld, error: E) -> None:
    world = member_of(new_world, 5)
    world.errors[OffsetCommit] = [{T0: error}]
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.poll()
    assert world.count(JoinGroup) == 1
    world.now += 200
    world.poll()
    assert (world.committed[T0].offset, world.count(JoinGroup), world.count(OffsetCommit)) == (5, 2, 2)


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testOnJoinPrepareWithOffsetCommitShouldKeepJoinAfterNonRetryableException",
    "ConsumerCoordinatorTest.testJoinPrepareAndCommitWithUnknownMemberId",
)
@pytest.mark.parametrize(
    ("error", "callback"),
    [(E.TOPIC_AUTHORIZATION_FAILED, "revoked"), (E.OFFSET_METADATA_TOO_LARGE, "revoked"), (E.UNKNOWN_MEMBER_ID, "lost")],
)
def test_a_commit_before_a_join_that_is_refused_does_not_keep_the_member_from_joining(new_world: NewWorld, error: E, callback: str) -> None:
    world = member_of(new_world, 5)
    world.errors[OffsetCommit] = [{T0: error}]
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.poll()
    assert world.count(JoinGroup) == 2
    assert world.callbacks[1][0] == callback


@pytest.mark.conformance("ConsumerCoordinatorTest.testOnJoinPrepareWithOffsetCommitShouldKeepJoinAfterRebalanceTimeout")
def test_a_commit_before_a_join_ends_with_the_rebalance_timeout(new_world: NewWorld) -> None:
    world = member_of(new_world, 5, group={"max_poll_interval_ms": 20_000, "session_timeout_ms": 10_000})
    world.errors[OffsetCommit] = [{T0: E.COORDINATOR_LOAD_IN_PROGRESS} for _ in range(100)]
    world.engine.membership.request_rejoin("group is already rebalancing")
    while world.count(JoinGroup) == 1:
        assert world.now < 21_000
        world.now += 200
        world.poll()
    assert world.now >= 19_000
    assert T0 not in world.committed


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testJoinPrepareWithDisableAutoCommit",
)
def test_without_automatic_commits_a_join_commits_nothing(new_world: NewWorld) -> None:
    world = member_of(new_world, 5, is_auto_commit=False)
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.poll()
    assert (world.count(OffsetCommit), world.count(JoinGroup)) == (0, 2)


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testAutoCommitManualAssignment",
    "ConsumerCoordinatorTest.testAutoCommitAsyncWithUserAssignedType",
    "ConsumerCoordinatorTest.testAutoCommitManualAssignmentCoordinatorUnknown",
    "ConsumerCoordinatorTest.testAutoCommitAfterCoordinatorBackToService",
)
def test_partitions_assigned_by_hand_are_committed_automatically_once_there_is_a_coordinator(new_world: NewWorld) -> None:
    world = new_world()
    world.add_records(T0, 5)
    world.silent.add(FindCoordinator)
    world.engine.assign({T0: OffsetAndMetadata(0)})
    world.poll()
    world.now = 5_000
    world.poll()
    assert world.count(OffsetCommit) == 0
    send = held(world, FindCoordinator)
    world.engine.on_response(send, world.response(send.request), world.now)
    world.settle()
    assert world.committed[T0].offset == 5
    commit = last(world, OffsetCommit)
    assert (commit.generation, commit.member_id) == (-1, "")


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitAsyncWithUserAssignedType",
    "ConsumerCoordinatorTest.testCoordinatorNotAvailableWithUserAssignedType",
    "ConsumerCoordinatorTest.testCommitOffsetShouldNotSetInstanceIdIfMemberIdIsUnknown",
)
def test_a_commit_without_a_membership_names_no_member(new_world: NewWorld) -> None:
    world = new_world(group={"instance_id": "i"})
    world.engine.assign({T0: OffsetAndMetadata(0)})
    world.settle()
    assert world.count(FindCoordinator) == 0
    commit = world.engine.commits.commit(Commit({T0: OffsetAndMetadata(3)}))
    world.settle()
    assert (commit.error, world.count(FindCoordinator)) == (E.NONE, 1)
    request = last(world, OffsetCommit)
    assert (request.generation, request.member_id, request.instance_id) == (-1, "", None)


@pytest.mark.conformance("ConsumerCoordinatorTest.testManyInFlightAsyncCommitsWithCoordinatorDisconnect")
def test_commits_that_are_lost_together_all_end(new_world: NewWorld) -> None:
    world = member_of(new_world)
    world.silent.add(OffsetCommit)
    commits = [world.engine.commits.commit(Commit({T0: OffsetAndMetadata(number)}, is_reported=True)) for number in range(100)]
    world.settle()
    sends, world.waiting = [each for each in world.waiting if isinstance(each.request, OffsetCommit)], []
    assert len(sends) == 100
    for send in sends:
        world.engine.on_no_response(send, "lost", world.now)
    assert world.engine.commits.finished == commits
    assert {each.error for each in commits} == {E.REQUEST_TIMED_OUT}


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetIllegalGenerationWithResetGeneration",
    "ConsumerCoordinatorTest.testCommitOffsetUnknownMemberWithResetGeneration",
    "ConsumerCoordinatorTest.testCommitOffsetFencedInstanceWithNewGeneration",
    "ConsumerCoordinatorTest.testCommitOffsetFencedInstanceWithRebalancingGeneration",
)
@pytest.mark.parametrize("error", [E.ILLEGAL_GENERATION, E.UNKNOWN_MEMBER_ID, E.FENCED_INSTANCE_ID])
@pytest.mark.parametrize("is_reset", [True, False])
def test_a_refusal_of_an_earlier_generation_does_not_end_the_present_one(new_world: NewWorld, error: E, is_reset: bool) -> None:
    world = member_of(new_world)
    world.silent.add(OffsetCommit)
    commit = world.engine.commits.commit(Commit({T0: OffsetAndMetadata(1)}))
    world.settle()
    late = held(world, OffsetCommit)
    membership = world.engine.membership
    if is_reset:
        membership.commit_refused(E.UNKNOWN_MEMBER_ID, membership.generation, membership.member_id, world.now)
    else:
        membership.request_rejoin("group is already rebalancing")
        world.poll()
    before = (membership.state, membership.generation, membership.failure)
    world.engine.on_response(late, {T0: error}, world.now)
    assert (commit.is_done, commit.error) == (True, error)
    assert (membership.state, membership.generation, membership.failure) == before


# Leaving.


@pytest.mark.conformance("ConsumerCoordinatorTest.testUnsubscribeWithInvalidGeneration")
def test_a_member_that_lost_its_partitions_says_so_when_it_leaves(new_world: NewWorld) -> None:
    world = member_of(new_world, 3)
    membership = world.engine.membership
    membership.commit_refused(E.ILLEGAL_GENERATION, membership.generation, membership.member_id, world.now)
    leave(world)
    assert world.callbacks[-1] == ("lost", [0])
    assert T0 not in world.committed
    assert world.engine.commits.finished == [], "no commit was tried"


@pytest.mark.conformance("ConsumerCoordinatorTest.testPendingMemberShouldLeaveGroup")
def test_a_member_that_has_only_its_id_leaves(new_world: NewWorld) -> None:
    world = new_world()
    world.silent.add(JoinGroup)
    world.engine.subscribe(["t"], [])
    world.poll()
    send = held(world, JoinGroup)
    world.silent.add(JoinGroup)
    world.engine.on_response(send, JoinResponse(error=E.MEMBER_ID_REQUIRED, member_id="pending"), world.now)
    world.settle()
    leave(world)
    assert last(world, LeaveGroup).member_id == "pending"


@pytest.mark.conformance("ConsumerCoordinatorTest.testCommitAfterLeaveGroup")
def test_after_leaving_commits_are_those_of_no_member(new_world: NewWorld) -> None:
    world = member_of(new_world)
    leave(world)
    commit = world.engine.commits.commit(Commit({T0: OffsetAndMetadata(1)}))
    world.settle()
    assert commit.error is E.NONE
    assert (last(world, OffsetCommit).generation, last(world, OffsetCommit).member_id) == (-1, "")


@pytest.mark.conformance("ConsumerCoordinatorTest.testCloseManualAssignment")
def test_partitions_assigned_by_hand_are_committed_on_close(new_world: NewWorld) -> None:
    world = new_world()
    world.add_records(T0, 3)
    world.engine.assign({T0: OffsetAndMetadata(0)})
    world.poll()
    leave(world)
    assert (world.committed[T0].offset, world.count(LeaveGroup), world.callbacks) == (3, 0, [])


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCloseCoordinatorNotKnownNoCommits",
    "ConsumerCoordinatorTest.testCloseCoordinatorNotKnownManualAssignment",
    "ConsumerCoordinatorTest.testCloseCoordinatorUnavailableNoCommits",
)
@pytest.mark.parametrize("is_by_hand", [True, False])
def test_leaving_without_a_coordinator_waits_for_nothing_when_nothing_is_committed(new_world: NewWorld, is_by_hand: bool) -> None:
    world = new_world(is_auto_commit=False)
    world.silent.add(FindCoordinator)
    if is_by_hand:
        world.engine.assign({T0: OffsetAndMetadata(0)})
    else:
        world.engine.subscribe(["t"], [])
    world.poll()
    leave(world)
    assert not world.engine.rebalances.is_active
    assert not world.engine.is_leaving


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCloseNoResponseForLeaveGroup",
    "AbstractCoordinatorTest.testHandleLeaveGroupResponseWithException",
    "AbstractCoordinatorTest.testHandleLeaveGroupResponseWithEmptyMemberResponse",
)
@pytest.mark.parametrize("answer", ["lost", E.UNKNOWN_MEMBER_ID, E.NOT_COORDINATOR, E.UNKNOWN_SERVER_ERROR])
def test_leaving_ends_with_any_answer(new_world: NewWorld, answer: Any) -> None:
    world = member_of(new_world)
    world.errors[LeaveGroup] = [answer]
    leave(world)
    assert not world.engine.is_leaving
    assert world.count(LeaveGroup) == 1


@pytest.mark.conformance("AbstractCoordinatorTest.testHandleNormalLeaveGroupResponseAndTruncatedLeaveReason")
def test_a_long_reason_is_cut(new_world: NewWorld) -> None:
    world = member_of(new_world)
    world.engine.leave("x" * 300, world.now)
    for _ in range(3):
        world.engine.next_callback(world.now)
        world.settle()
    assert last(world, LeaveGroup).reason == "x" * 255


# Fetching.


@pytest.mark.conformance("FetcherTest.testFetchingPendingPartitions", "FetcherTest.testInflightFetchOnPendingPartitions")
def test_partitions_are_not_fetched_before_the_application_knows_of_them(new_world: NewWorld) -> None:
    world = new_world()
    world.add_records(T0, 3)
    world.engine.subscribe(["t"], [])
    for _ in range(4):
        world.settle()
        callback = world.engine.next_callback(world.now)
        if callback is not None and callback.kind == "assigned":
            break
    world.settle()
    assert (world.count(OffsetFetch), world.count(Fetch)) == (0, 0)
    assert world.engine.next_callback(world.now) is None
    world.settle()
    assert (world.count(OffsetFetch), world.count(Fetch)) == (1, 1)


@pytest.mark.conformance("FetcherTest.testFetchDuringEagerRebalance", "FetcherTest.testFetchDuringCooperativeRebalance")
@pytest.mark.parametrize(("assignor", "kept"), [("range", []), ("cooperative-sticky", [1, 2])])
def test_what_is_buffered_stays_only_where_the_partition_does(new_world: NewWorld, assignor: str, kept: list[int]) -> None:
    world = new_world(assignor, is_auto_commit=False)
    world.add_records(T0, 3)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll(1)) == [0]
    fetches = world.count(Fetch)
    world.engine.membership.request_rejoin("group is already rebalancing")
    assert world.offsets(world.poll()) == (kept or [0, 1, 2])
    assert (world.count(Fetch) > fetches) is (not kept)


@pytest.mark.conformance("FetcherTest.testFetchDiscardedAfterPausedPartitionResumedAndSoughtToNewOffset")
def test_a_seek_of_a_paused_partition_drops_what_is_buffered(new_world: NewWorld) -> None:
    world = member_of(new_world)
    world.add_records(T0, 5)
    world.end_fetches()
    world.engine.pause([T0], True)
    assert world.poll() == []
    world.engine.seek(T0, OffsetAndMetadata(3))
    world.engine.pause([T0], False)
    assert world.offsets(world.poll()) == [3, 4]


@pytest.mark.conformance("FetcherTest.testSeekBeforeException", "SubscriptionStateTest.partitionReset")
def test_a_seek_makes_a_failed_partition_readable_again(new_world: NewWorld) -> None:
    world = new_world(reset=None)
    world.add_records(T0, 5)
    world.committed[T0] = OffsetAndMetadata(9)
    world.engine.subscribe(["t"], [])
    assert world.poll() == []
    assert [event.error for event in world.engine.take_events()] == [E.OFFSET_OUT_OF_RANGE]
    world.engine.seek(T0, OffsetAndMetadata(4))
    assert world.offsets(world.poll()) == [4]


# Subscriptions.


def test_buffered_records_of_a_topic_that_is_not_subscribed_any_more_are_not_handed_out(new_world: NewWorld) -> None:
    """Kafka: SubscriptionStateTest.testIsFetchableConsidersExplicitTopicSubscription, of later versions."""
    world = new_world(topics={"t": 1, "u": 1})
    world.add_records(T0, 3)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll(1)) == [0]
    world.engine.subscribe(["u"], [])
    assert world.engine.take(10) == []
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.engine.take(10)) == [1, 2]


@pytest.mark.conformance(
    "SubscriptionStateTest.partitionAssignmentChangeOnTopicSubscription",
    "SubscriptionStateTest.partitionAssignmentChangeOnPatternSubscription",
    "SubscriptionStateTest.topicSubscription",
)
@pytest.mark.parametrize("pattern", [None, "^u$"])
def test_another_subscription_changes_the_assignment_with_the_next_rebalance(new_world: NewWorld, pattern: str | None) -> None:
    world = member_of(new_world, topics={"t": 1, "u": 1})
    if pattern is None:
        world.engine.subscribe(["u"], [])
    else:
        world.engine.subscribe([], [re.compile(pattern)])
    assert world.engine.subscriptions.partitions.keys() == {T0}
    world.now += 100  # metadata is asked for again after a back-off
    world.poll()
    world.poll()
    assert world.engine.subscriptions.partitions.keys() == {U0}


@pytest.mark.conformance(
    "SubscriptionStateTest.unsubscription",
    "SubscriptionStateTest.unsubscribeUserSubscribe",
    "SubscriptionStateTest.unsubscribeUserAssignment",
)
def test_a_consumer_that_unsubscribed_can_be_assigned_partitions_and_the_other_way_round(new_world: NewWorld) -> None:
    world = member_of(new_world, topics={"t": 2})
    leave(world)
    assert world.engine.subscriptions.is_empty
    world.add_records(T1, 2)
    world.engine.assign({T1: OffsetAndMetadata(0)})
    world.end_fetches()
    assert world.offsets(world.poll()) == [0, 1]
    leave(world)
    assert world.engine.subscriptions.is_empty
    world.engine.subscribe(["t"], [])
    world.poll()
    assert world.engine.subscriptions.partitions.keys() == {T0, T1}
