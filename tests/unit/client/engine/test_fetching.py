"""What a consumer fetches: sessions, and positions that the log may not hold; in a cluster of values (Kafka: FetcherTest)."""

from collections.abc import Callable
from typing import Any

import pytest

from ottla.client.engine.values import (
    EpochEnd,
    Fetch,
    FetchResponse,
    ListOffsets,
    LogTruncated,
    Metadata,
    OffsetAndMetadata,
    OffsetForLeaderEpoch,
    PartitionEnd,
    Route,
)
from ottla.client.fetch.fetch_values import FetchPolicy, PartitionResponse
from ottla.client.fetch.leaders import LeaderAndEpoch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def fetches_of(world: Any) -> list[Fetch]:
    return [request for request in world.sent if isinstance(request, Fetch)]


@pytest.mark.conformance("FetcherTest.testConsumingViaIncrementalFetchRequests")
def test_a_fetch_names_what_changed_since_the_last_one(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.assign({T0: OffsetAndMetadata(0)})
    assert len(world.offsets(world.poll())) == 10
    world.settle()
    world.end_fetches()
    world.settle()
    sessions = [each.session for each in fetches_of(world)]
    assert [(each.session_id, each.epoch) for each in sessions] == [(0, 0), (7, 1), (7, 2)]
    assert [[fetch.offset for fetch in each.sent] for each in sessions] == [[0], [10], []]


def test_a_session_that_the_broker_has_lost_is_begun_again(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.engine.assign({T0: OffsetAndMetadata(0)})
    world.poll()
    world.settle()
    (waiting,) = world.waiting
    world.waiting.clear()
    refused = PartitionResponse(T0, ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
    world.engine.on_response(waiting, FetchResponse((refused,), {}, refused.error), world.now)
    world.add_records(T0, 5)
    assert world.offsets(world.poll()) == [10, 11, 12, 13, 14]
    assert [(each.session.session_id, each.session.epoch) for each in fetches_of(world)[:3]] == [(0, 0), (7, 1), (0, 0)]


def test_the_end_of_a_partition_that_the_broker_leaves_out_is_reported(new_world: Callable[..., Any]) -> None:
    world = new_world(reports_ends=True)
    world.add_records(T0, 10)
    world.engine.assign({T0: OffsetAndMetadata(0)})
    world.poll()
    world.settle()
    (waiting,) = world.waiting
    world.engine.on_response(waiting, FetchResponse((), {}, ErrorCode.NONE, 7), world.now)
    assert world.engine.take_events() == [PartitionEnd(T0, 10)]


def test_with_read_committed_a_partition_ends_at_its_last_stable_offset(new_world: Callable[..., Any]) -> None:
    world = new_world(reports_ends=True, fetch=FetchPolicy(is_read_committed=True))
    world.add_records(T0, 10)
    world.stable[T0] = 6
    world.engine.assign({T0: OffsetAndMetadata(0)})
    assert world.offsets(world.poll()) == [0, 1, 2, 3, 4, 5]
    world.settle()
    assert world.engine.take_events() == []
    world.end_fetches()
    assert world.engine.take_events() == [PartitionEnd(T0, 6)]
    assert world.engine.subscriptions.partitions[T0].lag(is_read_committed=True) == 0


@pytest.mark.conformance("FetcherTest.testFetcherCloseClosesFetchSessionsInBroker")
def test_closing_closes_the_sessions(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 3)
    world.engine.subscribe(["t"], [])
    world.poll()
    world.engine.close("the consumer is being closed", world.now)
    assert world.engine.is_leaving
    world.silent.add(Fetch)
    world.poll()
    closing = world.waiting[-1]
    assert (closing.route, closing.broker_id, closing.request.session.epoch, closing.request.session.session_id) == (Route.BROKER, 1, -1, 7)
    assert world.engine.is_leaving
    world.engine.on_no_response(closing, "lost", world.now)
    assert not world.engine.is_leaving
    assert world.engine.next_sends(world.now) == []


@pytest.mark.conformance("ConsumerCoordinatorTest.testRefreshOffsetWithValidation")
def test_a_committed_offset_with_an_epoch_is_validated_before_it_is_fetched(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 30)
    world.committed[T0] = OffsetAndMetadata(20, 0)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll()) == list(range(20, 30))
    kinds = [type(request) for request in world.sent]
    assert kinds.count(OffsetForLeaderEpoch) == 1
    assert kinds.index(OffsetForLeaderEpoch) < kinds.index(Fetch)


@pytest.mark.conformance("FetcherTest.testTruncationDetected")
def test_a_truncated_log_is_read_from_where_it_diverges(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 30)
    world.committed[T0] = OffsetAndMetadata(20, 3)
    world.epochs[T0] = 5
    world.epoch_ends[T0] = EpochEnd(ErrorCode.NONE, 3, 12)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll()) == list(range(12, 30))


def test_without_a_reset_policy_a_truncated_log_is_reported(new_world: Callable[..., Any]) -> None:
    world = new_world(reset=None)
    world.add_records(T0, 30)
    world.committed[T0] = OffsetAndMetadata(20, 3)
    world.epoch_ends[T0] = EpochEnd(ErrorCode.NONE, 2, 12)
    world.engine.subscribe(["t"], [])
    assert world.poll() == []
    assert world.engine.has_news()
    assert world.engine.take_events() == [LogTruncated(T0, OffsetAndMetadata(20, 3), OffsetAndMetadata(12, 2))]
    assert not world.engine.has_news()
    world.engine.seek(T0, OffsetAndMetadata(25))
    assert world.offsets(world.poll()) == [25, 26, 27, 28, 29]


@pytest.mark.conformance("FetcherTest.testSubscriptionPositionUpdatedWithEpoch")
def test_a_new_leader_epoch_is_validated_and_what_is_buffered_is_fetched_again(new_world: Callable[..., Any]) -> None:
    world = new_world(metadata_max_age_ms=10_000)
    world.add_records(T0, 30)
    world.engine.subscribe(["t"], [])
    assert world.offsets(world.poll(5)) == [0, 1, 2, 3, 4]
    state = world.engine.subscriptions.partitions[T0]
    assert (state.position, state.epoch, state.leader) == (5, 0, LeaderAndEpoch(1, 0))
    world.settle(10_000)
    assert world.count(OffsetForLeaderEpoch) == 0, "the leader is the same"
    world.epochs[T0] = 1
    world.epoch_ends[T0] = EpochEnd(ErrorCode.NONE, 0, 4)
    world.settle(10_000)
    assert world.count(OffsetForLeaderEpoch) == 1
    assert state.leader == LeaderAndEpoch(1, 1)
    assert world.offsets(world.poll())[0] == 4, "record 4 is another one now"


def test_an_epoch_that_the_leader_does_not_know_yet_refreshes_the_metadata(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.add_records(T0, 10)
    world.committed[T0] = OffsetAndMetadata(4, 0)
    world.errors[OffsetForLeaderEpoch] = [{T0: EpochEnd(ErrorCode.UNKNOWN_LEADER_EPOCH, -1, -1)}, "lost"]
    world.engine.subscribe(["t"], [])
    assert world.poll() == []
    metadata = world.count(Metadata)
    world.settle(1_000)
    world.settle(1_000)
    assert world.offsets(world.poll()) == [4, 5, 6, 7, 8, 9]
    assert world.count(OffsetForLeaderEpoch) == 3
    assert world.count(Metadata) > metadata


def test_new_records_of_a_buffered_partition_do_not_wait_for_another_partition(new_world: Callable[..., Any]) -> None:
    world = new_world(topics={"t": 2})
    world.add_records(T0, 10)
    world.engine.assign({T0: OffsetAndMetadata(0), T1: OffsetAndMetadata(0)})
    assert world.offsets(world.poll(5)) == [0, 1, 2, 3, 4]
    world.settle()
    (waiting,) = world.waiting
    assert [(each.partition, each.offset) for each in waiting.request.fetches] == [(T1, 0), (T0, 10)]
    assert waiting.request.session.forgotten == ()
    world.add_records(T0, 1)
    world.end_fetches()
    assert world.offsets(world.poll()) == [5, 6, 7, 8, 9, 10]


def test_a_broker_may_have_number_zero(new_world: Callable[..., Any]) -> None:
    world = new_world()
    world.leader = 0
    world.add_records(T0, 10)
    world.silent.add(ListOffsets)
    world.engine.subscribe(["t"], [])
    world.poll()
    (waiting,) = [each for each in world.waiting if isinstance(each.request, ListOffsets)]
    assert (waiting.route, waiting.broker_id) == (Route.BROKER, 0), "not the coordinator"
