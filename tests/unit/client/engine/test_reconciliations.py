"""What the application's thread does when the coordinator of the consumer protocol gives and takes partitions (KIP-848)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.engine.values import Metadata, OffsetAndMetadata, OffsetCommit, OffsetFetch
from ottla.client.membership.values import ConsumerGroupHeartbeat, ConsumerGroupHeartbeatResponse, MemberState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

T, U = "t" * 22, "u" * 22
T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


@pytest.fixture
def world(new_world: Callable[..., Any]) -> Any:
    """A member that owns both partitions of t, and has processed some of their records; u exists, too."""
    made = new_world(group={"is_consumer_protocol": True}, topics={"t": 2, "u": 1})
    made.topic_ids |= {"t": T, "u": U}
    made.target = {T: [0, 1]}
    for partition in (T0, T1, U0):
        made.add_records(partition, 10)
    made.engine.subscribe(["t"], [])
    assert len(made.poll()) == 2
    return made


def heartbeats(world: Any) -> list[ConsumerGroupHeartbeat]:
    return [request for request in world.sent if isinstance(request, ConsumerGroupHeartbeat)]


def commits(world: Any) -> list[OffsetCommit]:
    return [request for request in world.sent if isinstance(request, OffsetCommit)]


def test_a_member_joins_takes_over_and_acknowledges(world: Any) -> None:
    world.settle(1_000)
    assert world.callbacks == [("assigned", [0, 1])]
    assert [(each.member_epoch, each.owned) for each in heartbeats(world)] == [(0, {}), (1, {T: [0, 1]}), (1, None)]
    assert world.engine.membership.state is MemberState.STABLE


def test_metrics_count_what_is_taken_over(world: Any) -> None:
    def rebalances() -> tuple[float, float]:
        found = world.engine.metrics.values(world.now)
        return found["rebalance-total"], found["rebalance-latency-total"]

    world.settle()
    assert rebalances() == (1, 0)
    world.target = {T: [0]}
    world.settle(1_000)
    assert rebalances() == (1, 0), "it is under way"
    world.now += 250
    world.poll()
    world.settle()
    assert rebalances() == (2, 250)


def test_what_is_taken_away_is_committed_first_once_and_then_given_up(world: Any) -> None:
    world.target = {T: [0]}
    world.generation = 2
    world.silent.add(OffsetCommit)
    world.settle(1_000)
    assert world.engine.rebalances.is_due
    assert world.engine.next_callback(world.now) is None, "the commit is awaited"
    world.settle()
    (commit,) = commits(world)
    assert commit.offsets == {T0: OffsetAndMetadata(10, 0), T1: OffsetAndMetadata(10, 0)}
    assert (commit.generation, commit.member_id, commit.has_epoch) == (2, world.engine.membership.member_id, True)
    world.target = {}
    world.silent.clear()
    world.settle(1_000)  # the next heartbeat takes partition 0 away, too, while the commit is under way
    world.engine.on_response(next(each for each in world.waiting if each.request is commit), {}, world.now)
    revoked = world.engine.next_callback(world.now)
    assert revoked == ("revoked", (T0, T1))
    assert heartbeats(world)[-1].owned is None, "not before the application has given them up"
    assert world.engine.next_callback(world.now) == ("assigned", ())
    world.settle()
    assert heartbeats(world)[-1].owned == {}
    assert len(commits(world)) == 1


def test_without_automatic_commits_partitions_are_given_up_at_once(new_world: Callable[..., Any]) -> None:
    world = new_world(group={"is_consumer_protocol": True}, topics={"t": 2}, is_auto_commit=False)
    world.topic_ids["t"], world.target = T, {T: [0, 1]}
    world.engine.subscribe(["t"], [])
    world.poll()
    world.target = {T: [1]}
    world.settle(1_000)
    world.poll()
    assert world.callbacks == [("assigned", [0, 1]), ("revoked", [0]), ("assigned", [])]
    assert [each.owned for each in heartbeats(world)][-2:] == [None, {T: [1]}]
    assert world.count(OffsetCommit) == 0


def test_topics_of_which_only_the_id_is_known_are_looked_up(world: Any) -> None:
    world.target = {T: [0, 1], U: [0]}
    world.settle(1_000)
    world.settle(1_000)
    asked = [(each.topics, each.topic_ids) for each in world.sent if isinstance(each, Metadata)]
    assert ((), (U,)) in asked
    world.poll()
    assert world.engine.subscriptions.partitions[U0].position == 0
    assert world.callbacks[-1] == ("assigned", [0])
    assert world.engine.subscriptions.partitions.keys() == {T0, T1, U0}


def test_a_topic_that_was_made_again_is_given_up_and_taken_anew(world: Any) -> None:
    world.topic_ids["t"] = "v" * 22
    world.target = {"v" * 22: [0]}
    world.settle(1_000)
    world.settle(1_000)
    before = world.count(OffsetFetch)
    world.poll()
    assert world.callbacks[1:] == [("revoked", [0, 1]), ("assigned", [0])]
    assert world.count(OffsetFetch) == before + 1, "its records are others"


def test_a_commit_with_an_old_epoch_is_sent_again_with_the_next_one(world: Any) -> None:
    world.errors[OffsetCommit] = [{T0: ErrorCode.STALE_MEMBER_EPOCH, T1: ErrorCode.STALE_MEMBER_EPOCH}]
    before = len(heartbeats(world))
    commit = world.engine.commits.commit_stored(world.now + 10_000)
    world.generation = 5
    world.settle()
    assert len(heartbeats(world)) == before + 1, "at once: it brings the epoch"
    world.settle(99)
    assert (commit.is_done, len(commits(world))) == (False, 1)
    world.settle(1)
    assert [each.generation for each in commits(world)] == [1, 5]
    assert commit.error is ErrorCode.NONE


def test_a_member_that_was_removed_loses_its_partitions_and_joins_again(world: Any) -> None:
    world.errors[ConsumerGroupHeartbeat] = [ConsumerGroupHeartbeatResponse(error=ErrorCode.UNKNOWN_MEMBER_ID)]
    world.settle(1_000)
    world.poll()
    assert world.callbacks[1:] == [("lost", [0, 1]), ("assigned", [0, 1])]
    assert [each.member_epoch for each in heartbeats(world)][-2:] == [0, 2]
    assert world.count(OffsetCommit) == 0, "another member may own them"


def test_closing_waits_for_the_answer_to_the_last_heartbeat(world: Any) -> None:
    world.engine.close("the consumer is being closed", world.now)
    world.silent.add(ConsumerGroupHeartbeat)
    world.poll()
    assert world.callbacks[-1] == ("revoked", [0, 1])
    assert (len(commits(world)), heartbeats(world)[-1].is_leave) == (1, True)
    (leave,) = [each for each in world.waiting if isinstance(each.request, ConsumerGroupHeartbeat)]
    world.waiting.remove(leave)
    world.end_fetches()
    world.settle()
    assert world.engine.is_leaving
    world.engine.on_response(leave, ConsumerGroupHeartbeatResponse(error=ErrorCode.NONE, member_epoch=-1), world.now)
    world.end_fetches()
    assert not world.engine.is_leaving
