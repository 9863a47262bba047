"""Positions: committed offsets, resets, and errors on the way (Kafka: OffsetFetcherTest)."""

from typing import Any

import pytest

from ottla.client.engine.positions import Positions, Validation
from ottla.client.engine.subscriptions import PartitionState, Subscriptions
from ottla.client.engine.values import (
    EARLIEST,
    LATEST,
    ConsumerSettings,
    EpochEnd,
    FetchedOffset,
    LeaderEpoch,
    ListedOffset,
    LogTruncated,
    OffsetAndMetadata,
    OffsetFetchResponse,
    PartitionFailure,
)
from ottla.client.fetch.leaders import LeaderAndEpoch, Leaders
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.membership import Membership
from ottla.client.membership.values import GroupSettings
from ottla.groups.assignors import assignors
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.model import TopicPartition

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


@pytest.mark.parametrize("wants", [EARLIEST, LATEST])
@pytest.mark.parametrize("offset", [-1, -5])
def test_a_broker_that_knows_neither_start_nor_end_of_a_log_is_asked_again_later(wants: int, offset: int) -> None:
    driven = Driven()
    driven.state.find(wants)
    driven.listed(offset)
    assert driven.positions.next_requests(99) == []
    assert driven.listed(9, now_ms=100).timestamps == {A: wants}
    assert driven.state.position == 9


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
def test_what_may_not_be_read_is_told_and_asked_for_again() -> None:
    driven = Driven()
    refused = PartitionFailure(A, E.TOPIC_AUTHORIZATION_FAILED, "the broker refuses to look up its offset")
    driven.committed(7, E.TOPIC_AUTHORIZATION_FAILED)
    assert driven.positions.next_requests(0) == [], "after a back-off"
    driven.committed(7, E.TOPIC_AUTHORIZATION_FAILED, now_ms=1_000)
    assert driven.positions.failures == [refused], "once, until the application has heard of it"
    driven.committed(7, now_ms=10_000)
    assert driven.state.position == 7


def test_without_a_reset_policy_the_partition_fails() -> None:
    driven = Driven(reset=None)
    driven.committed(-1)
    assert driven.positions.failures == [
        PartitionFailure(A, E.OFFSET_OUT_OF_RANGE, "there is no committed offset, and auto.offset.reset is none")
    ]


VALIDATED, B = TopicPartition("t", 0), TopicPartition("t", 1)


class ValidationRun:
    """Partition A, led by broker 3 with epoch 6."""

    def __init__(self, **settings: Any) -> None:
        self.subscriptions = Subscriptions()
        self.subscriptions.add([VALIDATED], is_ready=True)
        self.leaders = Leaders()
        self.leaders.update_leader(VALIDATED, LeaderAndEpoch(3, 6))
        group = GroupSettings(group_id="g")
        self.logged: list[str] = []
        self.validation = Validation(
            ConsumerSettings(group=group, **settings), self.subscriptions, self.leaders, log=self.logged.append, rng=lambda: 0.5
        )

    @property
    def state(self) -> PartitionState:
        return self.subscriptions.partitions[VALIDATED]

    def request(self, now_ms: float = 0) -> Any:
        ((request, broker_id),) = self.validation.next_requests(now_ms)
        assert broker_id == self.leaders.leader(VALIDATED).broker_id  # type: ignore[union-attr]
        return request

    def answer(self, request: Any, epoch: int, end: int, error: E = E.NONE, now_ms: float = 0) -> None:
        self.validation.on_response(request, {VALIDATED: EpochEnd(error, epoch, end)}, now_ms)


@pytest.mark.conformance(
    "SubscriptionStateTest.testSeekValidatedShouldClearAwaitingValidation",
    "SubscriptionStateTest.testCompleteValidationShouldClearAwaitingValidation",
    "SubscriptionStateTest.testMaybeCompleteValidation",
)
def test_a_position_that_the_log_holds() -> None:
    driven = ValidationRun()
    driven.state.seek(20, 4)
    request = driven.request()
    assert request.epochs == {VALIDATED: LeaderEpoch(4, 6)}
    assert driven.validation.next_requests(0) == [], "one request at a time"
    driven.answer(request, 4, 20)
    assert (driven.state.position, driven.state.has_valid_position, driven.state.leader) == (20, True, LeaderAndEpoch(3, 6))


@pytest.mark.conformance(
    "SubscriptionStateTest.testSeekUnvalidatedWithNoOffsetEpoch",
    "SubscriptionStateTest.testSeekUnvalidatedWithNoEpochClearsAwaitingValidation",
)
@pytest.mark.parametrize("seek", [{}, {"epoch": 4, "is_valid": True}])
def test_nothing_is_asked_of_a_position_without_an_epoch_or_from_the_leader_itself(seek: dict[str, Any]) -> None:
    driven = ValidationRun()
    driven.state.seek(20, **seek)
    assert driven.validation.next_requests(0) == []


@pytest.mark.conformance("SubscriptionStateTest.testTruncationDetectionWithResetPolicy")
def test_a_truncated_log_is_read_from_where_it_diverges() -> None:
    driven = ValidationRun(reset=EARLIEST)
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
    driven = ValidationRun(reset=EARLIEST)
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
    driven = ValidationRun(reset=None)
    driven.state.seek(20, 4)
    driven.answer(driven.request(), 3, end)
    assert driven.validation.take_events() == [LogTruncated(VALIDATED, OffsetAndMetadata(20, 4), diverges)]
    assert driven.validation.take_events() == []
    assert driven.validation.next_requests(1e9) == []
    driven.state.seek(12, 3)
    driven.answer(driven.request(), 3, 12)
    assert driven.state.has_valid_position


@pytest.mark.parametrize("error", [E.FENCED_LEADER_EPOCH, E.UNKNOWN_LEADER_EPOCH, E.NOT_LEADER_OR_FOLLOWER, E.UNKNOWN_SERVER_ERROR])
def test_an_error_refreshes_the_metadata_and_is_retried(error: E) -> None:
    driven = ValidationRun()
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
    driven = ValidationRun()
    driven.state.seek(20, 4)
    driven.validation.on_response(driven.request(), {}, 0)
    driven.validation.on_no_response(driven.request(1_000), 1_000)
    assert driven.validation.unknown_leaders == {"t"}
    assert driven.request(2_000)


def test_a_refusal_is_reported() -> None:
    driven = ValidationRun()
    driven.state.seek(20, 4)
    driven.answer(driven.request(), -1, -1, E.TOPIC_AUTHORIZATION_FAILED)
    ((partition, error, _),) = driven.validation.take_events()
    assert (partition, error) == (VALIDATED, E.TOPIC_AUTHORIZATION_FAILED)
    assert driven.validation.next_requests(0) == []
    driven.answer(driven.request(now_ms=1_000), -1, -1, E.TOPIC_AUTHORIZATION_FAILED)
    assert len(driven.validation.take_events()) == 1, "asked, and told, again"


@pytest.mark.conformance("SubscriptionStateTest.testMaybeCompleteValidationAfterPositionChange")
def test_a_seek_and_a_new_leader_win_over_the_response_on_its_way() -> None:
    driven = ValidationRun(reset=EARLIEST)
    driven.state.seek(20, 4)
    request = driven.request()
    driven.state.seek(30, 5)
    driven.answer(request, 4, 12)
    assert (driven.state.position, driven.state.awaits_validation) == (30, True)
    request = driven.request()
    driven.leaders.update_leader(VALIDATED, LeaderAndEpoch(1, 7))
    driven.validation.follow_leaders()
    driven.answer(request, 5, 12)
    assert driven.state.awaits_validation
    request = driven.request()
    assert request.epochs == {VALIDATED: LeaderEpoch(5, 7)}
    driven.subscriptions.remove([VALIDATED])
    driven.answer(request, 5, 12)


@pytest.mark.conformance(
    "SubscriptionStateTest.testOffsetResetWhileAwaitingValidation", "SubscriptionStateTest.testMaybeCompleteValidationAfterOffsetReset"
)
def test_a_reset_wins_over_the_response_on_its_way() -> None:
    driven = ValidationRun(reset=EARLIEST)
    driven.state.seek(20, 4)
    request = driven.request()
    driven.state.find(EARLIEST)
    assert not driven.state.awaits_validation
    driven.answer(request, 4, 12)
    assert (driven.state.position, driven.state.wants, driven.state.awaits_validation) == (None, EARLIEST, False)


@pytest.mark.conformance("SubscriptionStateTest.testMaybeValidatePositionForCurrentLeader")
def test_positions_are_validated_when_their_leader_changes() -> None:
    driven = ValidationRun()
    driven.subscriptions.add([B], is_ready=True)
    driven.leaders.update_leader(B, LeaderAndEpoch(3, 6))
    for partition, epoch in ((VALIDATED, 4), (B, -1)):
        state = driven.subscriptions.partitions[partition]
        state.seek(20, epoch, is_valid=True)
        state.leader = driven.leaders.leader(partition)
    driven.validation.follow_leaders()
    assert driven.state.has_valid_position
    driven.leaders.update_leader(VALIDATED, LeaderAndEpoch(3, 7))
    driven.leaders.update_leader(B, LeaderAndEpoch(3, 7))
    driven.validation.follow_leaders()
    assert driven.state.awaits_validation
    assert not driven.subscriptions.partitions[B].awaits_validation, "without an epoch nothing can be asked"


def test_a_leader_that_becomes_known_is_no_change() -> None:
    driven = ValidationRun()
    driven.subscriptions.add([B], is_ready=True)
    state = driven.subscriptions.partitions[B]
    state.seek(20, 4, is_valid=True)
    driven.leaders.update_leader(B, LeaderAndEpoch(3, 6))
    driven.validation.follow_leaders()
    assert (state.leader, state.awaits_validation) == (LeaderAndEpoch(3, 6), False)


def test_a_leader_that_is_not_known_is_looked_for() -> None:
    driven = ValidationRun()
    driven.leaders.clear()
    driven.state.seek(20, 4)
    assert driven.validation.next_requests(0) == []
    assert driven.validation.unknown_leaders == {"t"}


def test_a_leader_without_an_epoch_cannot_be_asked() -> None:
    driven = ValidationRun()
    driven.leaders.clear()
    driven.leaders.update_leader(VALIDATED, LeaderAndEpoch(3))
    driven.state.seek(20, 4)
    assert driven.validation.next_requests(0) == []
    assert driven.state.has_valid_position
