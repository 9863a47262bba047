"""Positions against the leader epochs of other logs (Kafka: OffsetsForLeaderEpochClientTest, SubscriptionStateTest)."""

from typing import Any

import pytest

from ottla.core.client.consumer.events import LogTruncated, PartitionFailure
from ottla.core.client.consumer.subscriptions import PartitionState, Subscriptions
from ottla.core.client.consumer.validation import Validation
from ottla.core.client.consumer.values import EARLIEST, ConsumerSettings, EpochEnd, LeaderEpoch, OffsetAndMetadata
from ottla.core.client.group.values import GroupSettings
from ottla.core.client.leaders import LeaderAndEpoch, Leaders
from ottla.core.errors import ErrorCode as E
from ottla.core.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Driven:
    """Partition A, led by broker 3 with epoch 6."""

    def __init__(self, **settings: Any) -> None:
        self.subscriptions = Subscriptions()
        self.subscriptions.add([A], is_ready=True)
        self.leaders = Leaders()
        self.leaders.update_leader(A, LeaderAndEpoch(3, 6))
        group = GroupSettings(group_id="g")
        self.logged: list[str] = []
        self.validation = Validation(
            ConsumerSettings(group=group, **settings), self.subscriptions, self.leaders, log=self.logged.append, rng=lambda: 0.5
        )

    @property
    def state(self) -> PartitionState:
        return self.subscriptions.partitions[A]

    def request(self, now_ms: float = 0) -> Any:
        ((request, broker_id),) = self.validation.next_requests(now_ms)
        assert broker_id == self.leaders.leader(A).broker_id  # type: ignore[union-attr]
        return request

    def answer(self, request: Any, epoch: int, end: int, error: E = E.NONE, now_ms: float = 0) -> None:
        self.validation.on_response(request, {A: EpochEnd(error, epoch, end)}, now_ms)


@pytest.mark.conformance(
    "SubscriptionStateTest.testSeekValidatedShouldClearAwaitingValidation",
    "SubscriptionStateTest.testCompleteValidationShouldClearAwaitingValidation",
    "SubscriptionStateTest.testMaybeCompleteValidation",
)
def test_a_position_that_the_log_holds() -> None:
    driven = Driven()
    driven.state.seek(20, 4)
    request = driven.request()
    assert request.epochs == {A: LeaderEpoch(4, 6)}
    assert driven.validation.next_requests(0) == [], "one request at a time"
    driven.answer(request, 4, 20)
    assert (driven.state.position, driven.state.has_valid_position, driven.state.leader) == (20, True, LeaderAndEpoch(3, 6))


@pytest.mark.conformance(
    "SubscriptionStateTest.testSeekUnvalidatedWithNoOffsetEpoch",
    "SubscriptionStateTest.testSeekUnvalidatedWithNoEpochClearsAwaitingValidation",
)
@pytest.mark.parametrize("seek", [{}, {"epoch": 4, "is_valid": True}])
def test_nothing_is_asked_of_a_position_without_an_epoch_or_from_the_leader_itself(seek: dict[str, Any]) -> None:
    driven = Driven()
    driven.state.seek(20, **seek)
    assert driven.validation.next_requests(0) == []


@pytest.mark.conformance("SubscriptionStateTest.testTruncationDetectionWithResetPolicy")
def test_a_truncated_log_is_read_from_where_it_diverges() -> None:
    driven = Driven(reset=EARLIEST)
    driven.state.seek(20, 4)
    driven.state.stored = OffsetAndMetadata(20, 4)
    driven.answer(driven.request(), 3, 12)
    state = driven.state
    assert (state.position, state.epoch, state.has_valid_position, state.stored) == (12, 3, True, None)
    assert driven.logged == [
        "Truncation detected for partition t-0 at offset 20 (epoch 4), resetting offset to the first offset known to diverge 12 (epoch 3)"
    ]


@pytest.mark.conformance("SubscriptionStateTest.testTruncationDetectionUnknownDivergentOffsetWithResetPolicy")
@pytest.mark.parametrize(("epoch", "end"), [(-1, -1), (4, -1), (-1, 12)])
def test_a_log_that_does_not_know_the_epoch_is_reset(epoch: int, end: int) -> None:
    driven = Driven(reset=EARLIEST)
    driven.state.seek(20, 4)
    driven.answer(driven.request(), epoch, end)
    assert (driven.state.position, driven.state.wants, driven.state.awaits_validation) == (None, EARLIEST, False)
    assert driven.logged == ["Truncation detected for partition t-0 at offset 20 (epoch 4), resetting offset"]


@pytest.mark.conformance(
    "SubscriptionStateTest.testTruncationDetectionWithoutResetPolicy",
    "SubscriptionStateTest.testTruncationDetectionUnknownDivergentOffsetWithoutResetPolicy",
)
@pytest.mark.parametrize(("end", "diverges"), [(12, OffsetAndMetadata(12, 3)), (-1, None)])
def test_without_a_reset_policy_the_application_is_asked(end: int, diverges: OffsetAndMetadata | None) -> None:
    driven = Driven(reset=None)
    driven.state.seek(20, 4)
    driven.answer(driven.request(), 3, end)
    assert driven.validation.take_events() == [LogTruncated(A, OffsetAndMetadata(20, 4), diverges)]
    assert driven.validation.take_events() == []
    assert driven.validation.next_requests(1e9) == []
    driven.state.seek(12, 3)
    driven.answer(driven.request(), 3, 12)
    assert driven.state.has_valid_position


@pytest.mark.parametrize("error", [E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_SERVER_ERROR])
def test_an_error_refreshes_the_metadata_and_is_retried(error: E) -> None:
    driven = Driven()
    driven.state.seek(20, 4)
    driven.answer(driven.request(), -1, -1, error)
    assert driven.validation.unknown_leaders == {"t"}
    assert driven.validation.next_requests(0) == []
    retry_ms = driven.validation.next_ms(0)
    assert retry_ms is not None
    driven.answer(driven.request(retry_ms), 4, 20)
    assert driven.state.has_valid_position
    assert driven.validation.next_ms(0) is None


def test_a_response_without_the_partition_and_a_lost_request_are_retried() -> None:
    driven = Driven()
    driven.state.seek(20, 4)
    driven.validation.on_response(driven.request(), {}, 0)
    driven.validation.on_no_response(driven.request(1_000), 1_000)
    assert driven.validation.unknown_leaders == {"t"}
    assert driven.request(2_000)


def test_a_refusal_is_reported() -> None:
    driven = Driven()
    driven.state.seek(20, 4)
    driven.answer(driven.request(), -1, -1, E.TOPIC_AUTHORIZATION_FAILED)
    ((partition, error, _),) = driven.validation.take_events()
    assert (partition, error) == (A, E.TOPIC_AUTHORIZATION_FAILED)
    assert PartitionFailure(A, error, "").partition == A
    assert driven.validation.next_requests(1e9) == []


@pytest.mark.conformance("SubscriptionStateTest.testMaybeCompleteValidationAfterPositionChange")
def test_a_seek_and_a_new_leader_win_over_the_response_on_its_way() -> None:
    driven = Driven(reset=EARLIEST)
    driven.state.seek(20, 4)
    request = driven.request()
    driven.state.seek(30, 5)
    driven.answer(request, 4, 12)
    assert (driven.state.position, driven.state.awaits_validation) == (30, True)
    request = driven.request()
    driven.leaders.update_leader(A, LeaderAndEpoch(1, 7))
    driven.validation.follow_leaders()
    driven.answer(request, 5, 12)
    assert driven.state.awaits_validation
    request = driven.request()
    assert request.epochs == {A: LeaderEpoch(5, 7)}
    driven.subscriptions.remove([A])
    driven.answer(request, 5, 12)


@pytest.mark.conformance(
    "SubscriptionStateTest.testOffsetResetWhileAwaitingValidation", "SubscriptionStateTest.testMaybeCompleteValidationAfterOffsetReset"
)
def test_a_reset_wins_over_the_response_on_its_way() -> None:
    driven = Driven(reset=EARLIEST)
    driven.state.seek(20, 4)
    request = driven.request()
    driven.state.find(EARLIEST)
    assert not driven.state.awaits_validation
    driven.answer(request, 4, 12)
    assert (driven.state.position, driven.state.wants, driven.state.awaits_validation) == (None, EARLIEST, False)


@pytest.mark.conformance("SubscriptionStateTest.testMaybeValidatePositionForCurrentLeader")
def test_positions_are_validated_when_their_leader_changes() -> None:
    driven = Driven()
    driven.subscriptions.add([B], is_ready=True)
    driven.leaders.update_leader(B, LeaderAndEpoch(3, 6))
    for partition, epoch in ((A, 4), (B, -1)):
        state = driven.subscriptions.partitions[partition]
        state.seek(20, epoch, is_valid=True)
        state.leader = driven.leaders.leader(partition)
    driven.validation.follow_leaders()
    assert driven.state.has_valid_position
    driven.leaders.update_leader(A, LeaderAndEpoch(3, 7))
    driven.leaders.update_leader(B, LeaderAndEpoch(3, 7))
    driven.validation.follow_leaders()
    assert driven.state.awaits_validation
    assert not driven.subscriptions.partitions[B].awaits_validation, "without an epoch nothing can be asked"


def test_a_leader_that_becomes_known_is_no_change() -> None:
    driven = Driven()
    driven.subscriptions.add([B], is_ready=True)
    state = driven.subscriptions.partitions[B]
    state.seek(20, 4, is_valid=True)
    driven.leaders.update_leader(B, LeaderAndEpoch(3, 6))
    driven.validation.follow_leaders()
    assert (state.leader, state.awaits_validation) == (LeaderAndEpoch(3, 6), False)


def test_a_leader_that_is_not_known_is_looked_for() -> None:
    driven = Driven()
    driven.leaders.clear()
    driven.state.seek(20, 4)
    assert driven.validation.next_requests(0) == []
    assert driven.validation.unknown_leaders == {"t"}


def test_a_leader_without_an_epoch_cannot_be_asked() -> None:
    driven = Driven()
    driven.leaders.clear()
    driven.leaders.update_leader(A, LeaderAndEpoch(3))
    driven.state.seek(20, 4)
    assert driven.validation.next_requests(0) == []
    assert driven.state.has_valid_position
