"""Positions: committed offsets, resets, and errors on the way (Kafka: OffsetFetcherTest)."""

from typing import Any

import pytest

from ottla.core.assignors import assignors
from ottla.core.client.consumer.events import PartitionFailure
from ottla.core.client.consumer.positions import Positions
from ottla.core.client.consumer.subscriptions import PartitionState, Subscriptions
from ottla.core.client.consumer.values import (
    LATEST,
    ConsumerSettings,
    FetchedOffset,
    ListedOffset,
    OffsetAndMetadata,
    OffsetFetchResponse,
)
from ottla.core.client.group.evidence import Evidence
from ottla.core.client.group.membership import Membership
from ottla.core.client.group.values import GroupSettings
from ottla.core.client.leaders import LeaderAndEpoch, Leaders
from ottla.core.errors import ErrorCode as E
from ottla.core.model import TopicPartition

A = TopicPartition("t", 0)


class Driven:
    def __init__(self, **settings: Any) -> None:
        group = GroupSettings(group_id="g")
        self.subscriptions = Subscriptions()
        self.subscriptions.add([A], is_ready=True)
        self.membership = Membership(group, [assignors()["range"]], evidence=Evidence(group, now_ms=0), now_ms=0, rng=lambda: 0.5)
        self.membership.on_coordinator(1, 0)
        self.leaders = Leaders()
        self.leaders.update_leader(A, LeaderAndEpoch(3, 0))
        self.positions = Positions(
            ConsumerSettings(group=group, **settings),
            self.membership,
            self.subscriptions,
            self.leaders,
            rng=lambda: 0.5,
            time_of_day_ms=lambda: 10_000,
        )

    @property
    def state(self) -> PartitionState:
        return self.subscriptions.partitions[A]

    def committed(self, offset: int, error: E = E.NONE, top: E = E.NONE, now_ms: float = 0) -> None:
        ((request, broker_id),) = self.positions.next_requests(now_ms)
        assert broker_id == -1
        fetched = FetchedOffset(error, OffsetAndMetadata(offset, 4))
        self.positions.on_offsets(request, OffsetFetchResponse(top, {A: fetched}), now_ms)  # type: ignore[arg-type]

    def listed(self, offset: int, error: E = E.NONE, now_ms: float = 0) -> Any:
        ((request, broker_id),) = self.positions.next_requests(now_ms)
        assert broker_id == 3
        self.positions.on_listed(request, {A: ListedOffset(error, offset, 2)}, now_ms)  # type: ignore[arg-type]
        return request


@pytest.mark.conformance("ConsumerCoordinatorTest.testRefreshOffset", "ConsumerCoordinatorTest.testFetchCommittedOffsets")
def test_a_committed_offset() -> None:
    driven = Driven()
    driven.committed(7)
    assert (driven.state.position, driven.state.epoch, driven.state.committed) == (7, 4, 7)
    assert driven.positions.next_requests(0) == []


@pytest.mark.conformance("ConsumerCoordinatorTest.testRefreshOffsetWithNoFetchableOffsets")
def test_without_a_committed_offset_the_partition_is_reset() -> None:
    driven = Driven(reset=LATEST)
    driven.committed(-1)
    assert driven.listed(9).timestamps == {A: LATEST}
    assert driven.state.position == 9


def test_no_record_is_young_enough() -> None:
    driven = Driven()
    driven.state.find(5_000)
    driven.listed(-1)
    assert driven.state.wants == LATEST


def test_so_many_records_before_the_end() -> None:
    driven = Driven()
    driven.state.find(LATEST, 4)
    driven.listed(9)
    assert driven.state.position == 5
    driven.state.find(LATEST, 40)
    driven.listed(9)
    assert driven.state.position == 0


def test_a_seek_wins_over_a_response() -> None:
    driven = Driven()
    ((request, _),) = driven.positions.next_requests(0)
    driven.state.seek(3)
    driven.positions.on_offsets(request, OffsetFetchResponse(E.NONE, {A: FetchedOffset(E.NONE, OffsetAndMetadata(7))}), 0)  # type: ignore[arg-type]
    assert driven.state.position == 3


def test_a_seek_to_the_end_wins_over_a_committed_offset_that_is_on_its_way() -> None:
    driven = Driven()
    ((request, _),) = driven.positions.next_requests(0)
    driven.state.find(LATEST)
    driven.positions.on_offsets(request, OffsetFetchResponse(E.NONE, {A: FetchedOffset(E.NONE, OffsetAndMetadata(7))}), 0)  # type: ignore[arg-type]
    driven.listed(9)
    assert driven.state.position == 9


@pytest.mark.conformance("SubscriptionStateTest.invalidPositionUpdate")
def test_a_partition_that_was_taken_away_is_not_touched() -> None:
    driven = Driven()
    ((request, _),) = driven.positions.next_requests(0)
    driven.subscriptions.remove([A])
    driven.subscriptions.add([A], is_ready=True)
    driven.positions.on_offsets(request, OffsetFetchResponse(E.NONE, {A: FetchedOffset(E.NONE, OffsetAndMetadata(7))}), 0)  # type: ignore[arg-type]
    assert driven.state.position is None
    driven.committed(8)
    assert driven.state.position == 8


@pytest.mark.conformance("ConsumerCoordinatorTest.testRefreshOffsetWithPendingTransactions")
@pytest.mark.parametrize("error", [E.UNSTABLE_OFFSET_COMMIT, E.COORDINATOR_LOAD_IN_PROGRESS])
def test_a_retriable_error_is_retried(error: E) -> None:
    driven = Driven()
    driven.committed(7, error)
    assert driven.positions.next_requests(99) == []
    assert driven.positions.next_ms(0) == 100
    driven.committed(7, now_ms=100)
    assert driven.state.position == 7


@pytest.mark.conformance("ConsumerCoordinatorTest.testRefreshOffsetRetriableErrorCoordinatorLookup")
def test_a_coordinator_that_moved_is_found_again() -> None:
    driven = Driven()
    driven.committed(-1, top=E.NOT_COORDINATOR)
    assert driven.membership.coordinator is None
    assert driven.positions.next_requests(100) == []
    assert [type(each).__name__ for each in driven.membership.next_requests(100)] == ["FindCoordinator"]


@pytest.mark.parametrize("error", [E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_leader_that_moved_is_looked_up(error: E) -> None:
    driven = Driven()
    driven.state.find(LATEST)
    driven.listed(0, error)
    assert driven.positions.unknown_leaders == {"t"}
    driven.listed(9, now_ms=100)
    assert driven.state.position == 9


def test_an_unknown_leader_is_looked_up() -> None:
    driven = Driven()
    driven.leaders.clear()
    driven.state.find(LATEST)
    assert driven.positions.next_requests(0) == []
    assert driven.positions.unknown_leaders == {"t"}


def test_a_lost_request_is_retried() -> None:
    driven = Driven()
    driven.state.find(LATEST)
    ((request, _),) = driven.positions.next_requests(0)
    driven.positions.on_no_response(request, 0)
    assert driven.positions.unknown_leaders == {"t"}
    driven.listed(9, now_ms=100)
    assert driven.state.position == 9


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testTopicAuthorizationFailedInOffsetFetch", "ConsumerCoordinatorTest.testRefreshOffsetsGroupNotAuthorized"
)
def test_what_may_not_be_read_fails() -> None:
    driven = Driven()
    driven.committed(7, E.TOPIC_AUTHORIZATION_FAILED)
    assert driven.positions.failures == [PartitionFailure(A, E.TOPIC_AUTHORIZATION_FAILED, "the broker refuses to look up its offset")]
    assert driven.positions.next_requests(1e9) == []


def test_without_a_reset_policy_the_partition_fails() -> None:
    driven = Driven(reset=None)
    driven.committed(-1)
    assert driven.positions.failures == [
        PartitionFailure(A, E.OFFSET_OUT_OF_RANGE, "there is no committed offset, and auto.offset.reset is none")
    ]
