"""What the application's thread does for a rebalance, when the membership ends meanwhile. The usual cases are in test_engine."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.engine.commits import Commit
from ottla.client.engine.values import OffsetAndMetadata, OffsetCommit, Route
from ottla.client.membership.values import Heartbeat, JoinGroup, MemberState, SyncGroup
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.protocol.wire.consumer_protocol import encode_assignment

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def owner(new_world: Callable[..., Any], *more: str) -> Any:
    world = new_world("cooperative-sticky", topics={"t": 2, **dict.fromkeys(more, 1)})
    world.engine.subscribe(["t", *more], [])
    world.poll()
    return world


@pytest.mark.conformance("ConsumerCoordinatorTest.shouldLoseAllOwnedPartitionsBeforeRejoiningAfterResettingGenerationId")
def test_partitions_are_lost_when_the_membership_ends_during_a_callback(new_world: Callable[..., Any]) -> None:
    world = owner(new_world, "u")
    world.engine.subscriptions.subscribe(["t"], [])
    world.engine.membership.request_rejoin("subscription has changed")
    assert world.engine.next_callback(world.now) == ("revoked", (TopicPartition("u", 0),))
    world.engine.membership.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, world.engine.membership.generation, "me", world.now)
    assert world.engine.next_callback(world.now) == ("lost", (T0, T1))
    assert world.engine.next_callback(world.now) is None
    assert world.engine.subscriptions.partitions == {}


def test_an_assignment_of_a_membership_that_ended_is_not_taken(new_world: Callable[..., Any]) -> None:
    world = owner(new_world)
    world.assignment = encode_assignment({"t": [0]})
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.silent.add(Heartbeat)
    assert world.engine.next_callback(world.now) is None
    world.settle()
    revoked = world.engine.next_callback(world.now)
    assert (revoked.kind, [each.partition for each in revoked.partitions]) == ("revoked", [1])
    world.engine.membership.commit_refused(ErrorCode.UNKNOWN_MEMBER_ID, world.engine.membership.generation, "me", world.now)
    lost = world.engine.next_callback(world.now)
    assert (lost.kind, lost.partitions) == ("lost", (T0,))


def test_a_commit_is_not_sent_again_for_partitions_that_were_given_up_meanwhile(new_world: Callable[..., Any]) -> None:
    world = owner(new_world)
    world.errors[OffsetCommit] = [{each: ErrorCode.COORDINATOR_LOAD_IN_PROGRESS} for each in (T0, T1)]
    kept, given_up = (world.engine.commits.commit(Commit({each: OffsetAndMetadata(3)}, retry_until_ms=60_000)) for each in (T0, T1))
    world.settle()
    world.assignment = encode_assignment({"t": [0]})
    world.engine.membership.request_rejoin("group is already rebalancing")
    world.poll()
    world.settle(1_000)
    assert (kept.error, given_up.error) == (ErrorCode.NONE, ErrorCode.REBALANCE_IN_PROGRESS)
    assert world.committed.keys() == {T0}


def test_no_records_are_handed_out_while_a_commit_is_awaited(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.subscribe(["t"], [])
    world.poll(5)
    world.silent.add(OffsetCommit)
    world.engine.membership.request_rejoin("group is already rebalancing")
    assert world.engine.next_callback(world.now) is None
    assert world.engine.rebalances.is_active
    assert world.engine.take(5) == []
    world.silent.clear()
    world.settle()
    world.end_fetches()
    assert world.engine.next_callback(world.now).kind == "revoked"


def held(world: Any, kind: type) -> Any:
    """The request of a kind that waits for its response, which comes from now on."""
    (found,) = [send for send in world.waiting if isinstance(send.request, kind)]
    world.waiting.remove(found)
    world.silent.discard(kind)
    return found


def commit_of(world: Any, *partitions: TopicPartition, offset: int = 1) -> Commit:
    return world.engine.commits.commit(Commit(dict.fromkeys(partitions, OffsetAndMetadata(offset)), retry_until_ms=world.now + 60_000))


def rejoining(new_world: Callable[..., Any]) -> Any:
    """A world whose member has sent JoinGroup, with its partitions, and waits for the response."""
    world = owner(new_world)
    world.silent |= {JoinGroup, SyncGroup, OffsetCommit}
    world.engine.membership.request_rejoin("group is already rebalancing")
    return world


def test_commits_go_beside_a_join_group_and_wait_for_a_sync_group(new_world: Callable[..., Any]) -> None:
    world = rejoining(new_world)
    before = commit_of(world, T0)
    world.poll()
    assert world.engine.membership.state is MemberState.PREPARING_REBALANCE
    during = commit_of(world, T0, offset=2)
    world.settle()
    first = held(world, OffsetCommit)
    assert (first.route, during.is_done) == (Route.COORDINATOR, False), "on another connection it might overtake the first one"
    world.silent.add(OffsetCommit)
    world.engine.on_response(first, {T0: ErrorCode.NONE}, world.now)
    world.settle()
    second = held(world, OffsetCommit)
    assert (before.is_done, second.route, second.request.generation) == (True, Route.BROKER, 1)
    world.engine.on_response(second, {T0: ErrorCode.NONE}, world.now)
    assert during.error is ErrorCode.NONE

    join = held(world, JoinGroup)
    world.engine.on_response(join, world.response(join.request), world.now)
    after, foreign = commit_of(world, T0, offset=3), commit_of(world, TopicPartition("other", 0))
    world.settle()
    assert world.engine.membership.state is MemberState.COMPLETING_REBALANCE
    assert (after.is_done, foreign.error) == (False, ErrorCode.REBALANCE_IN_PROGRESS), "its owner may be another member now"
    assert world.engine.commits.next_ms() == world.now + 60_000, "it does not spin"
    sync = held(world, SyncGroup)
    world.engine.on_response(sync, world.response(sync.request), world.now)
    world.settle()
    assert (after.error, world.committed[T0].offset) == (ErrorCode.NONE, 3)


@pytest.mark.parametrize("error", [ErrorCode.REBALANCE_IN_PROGRESS, ErrorCode.ILLEGAL_GENERATION])
@pytest.mark.parametrize("is_joined", [False, True], ids=["before the response to JoinGroup", "in the next generation"])
def test_a_commit_that_came_too_late_for_its_generation_goes_into_the_next_one(
    new_world: Callable[..., Any], error: ErrorCode, is_joined: bool
) -> None:
    world = rejoining(new_world)
    world.poll()
    until_ms = world.now + 60_000
    kept, lost = (
        world.engine.commits.commit(Commit({T0: OffsetAndMetadata(2)}, retry_until_ms=until_ms, outlasts_rebalances=outlasts))
        for outlasts in (True, False)
    )
    world.settle()
    late = [send for send in world.waiting if isinstance(send.request, OffsetCommit)]
    world.waiting = [send for send in world.waiting if send not in late]
    if is_joined:
        for kind in (JoinGroup, SyncGroup):
            sent = held(world, kind)
            world.engine.on_response(sent, world.response(sent.request), world.now)
            world.settle()
    for send in late:
        world.engine.on_response(send, {T0: error}, world.now)
    assert (kept.is_done, lost.is_done) == (False, True)
    world.settle()
    assert not any(isinstance(send.request, OffsetCommit) for send in world.waiting), "not before a back-off"
    if not is_joined:
        for kind in (JoinGroup, SyncGroup):
            sent = held(world, kind)
            world.engine.on_response(sent, world.response(sent.request), world.now)
            world.settle()
    world.silent.clear()
    world.now += 1_000
    world.settle()
    assert (kept.error, world.committed[T0].offset) == (ErrorCode.NONE, 2)


@pytest.mark.parametrize("error", [ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID])
def test_join_group_alone_says_what_became_of_a_member_that_rejoins(new_world: Callable[..., Any], error: ErrorCode) -> None:
    """The coordinator may have begun the next generation, and its response to JoinGroup, on another connection, may be later."""
    world = rejoining(new_world)
    world.poll()
    commit = commit_of(world, T0)
    world.settle()
    world.engine.on_response(held(world, OffsetCommit), {T0: error}, world.now)
    assert commit.error is ErrorCode.REBALANCE_IN_PROGRESS
    lost = commit_of(world, T0)
    world.silent.add(OffsetCommit)
    world.settle()
    world.engine.on_no_response(held(world, OffsetCommit), "no answer", world.now)
    assert (world.engine.membership.coordinator, world.engine.membership.has_lost_partitions) == (1, False)
    world.settle(2_000)
    assert lost.error is ErrorCode.NONE
