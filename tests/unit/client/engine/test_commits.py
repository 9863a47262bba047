"""Commits: what a refusal means, retries, and automatic ones (Kafka: ConsumerCoordinatorTest, its commits)."""

from typing import Any

import pytest

from ottla.client.engine.commits import Commit, Commits
from ottla.client.engine.subscriptions import Subscriptions
from ottla.client.engine.values import ConsumerSettings, OffsetAndMetadata
from ottla.client.membership.evidence import Evidence
from ottla.client.membership.membership import Membership
from ottla.client.membership.values import GroupSettings
from ottla.groups.assignors import assignors
from ottla.protocol.errors import ErrorCode as E
from ottla.protocol.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


class Driven:
    def __init__(self, **settings: Any) -> None:
        group = GroupSettings(group_id="g")
        self.subscriptions = Subscriptions()
        self.membership = Membership(group, [assignors()["range"]], evidence=Evidence(group, now_ms=0), now_ms=0, rng=lambda: 0.5)
        self.membership.on_coordinator(1, 0)
        self.commits = Commits(ConsumerSettings(group=group, **settings), self.membership, self.subscriptions, now_ms=0, rng=lambda: 0.5)

    def answer(self, *errors: E, now_ms: float = 0) -> None:
        (request,) = self.commits.next_requests(now_ms)
        self.commits.on_response(request, dict(zip(request.offsets, errors, strict=False)), now_ms)


def offsets(*partitions: TopicPartition) -> dict[TopicPartition, OffsetAndMetadata]:
    return dict.fromkeys(partitions, OffsetAndMetadata(5))


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetOnly",
    "ConsumerCoordinatorTest.testCommitOffsetMetadataAsync",
    "ConsumerCoordinatorTest.testCommitOffsetMetadataSync",
)
def test_a_commit_is_done_when_it_is_answered() -> None:
    driven = Driven()
    driven.subscriptions.add([A], is_ready=True)
    commit = driven.commits.commit(Commit(offsets(A, B)))
    driven.answer(E.NONE, E.NONE)
    assert (commit.is_done, commit.error) == (True, E.NONE)
    assert driven.subscriptions.partitions[A].committed == 5
    assert driven.commits.finished == []


def test_a_commit_without_offsets_is_done_at_once() -> None:
    assert Driven().commits.commit(Commit({})).is_done


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetMetadataTooLarge",
    "ConsumerCoordinatorTest.testCommitOffsetSyncCallbackWithNonRetriableException",
)
def test_errors_of_single_partitions_are_results() -> None:
    driven = Driven()
    commit = driven.commits.commit(Commit(offsets(A, B)))
    driven.answer(E.NONE, E.OFFSET_METADATA_TOO_LARGE)
    assert commit.errors == {A: E.NONE, B: E.OFFSET_METADATA_TOO_LARGE}
    assert commit.error is E.OFFSET_METADATA_TOO_LARGE


@pytest.mark.conformance("ConsumerCoordinatorTest.testRetryCommitUnknownTopicOrPartition")
@pytest.mark.parametrize("error", [E.COORDINATOR_LOAD_IN_PROGRESS, E.UNKNOWN_TOPIC_OR_PARTITION])
def test_a_retriable_error_is_retried_until_the_deadline(error: E) -> None:
    driven = Driven()
    commit = driven.commits.commit(Commit(offsets(A), retry_until_ms=250))
    driven.answer(error)
    assert driven.commits.next_requests(99) == []
    assert driven.commits.next_ms() == 100
    driven.answer(error, now_ms=100)
    assert commit.is_done
    assert commit.error is error


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetAsyncWithDefaultCallback",
    "ConsumerCoordinatorTest.testCommitOffsetAsyncFailedWithDefaultCallback",
    "ConsumerCoordinatorTest.testCommitOffsetAsyncCoordinatorNotAvailable",
    "ConsumerCoordinatorTest.testCommitOffsetAsyncNotCoordinator",
    "ConsumerCoordinatorTest.testCommitOffsetAsyncDisconnected",
)
def test_an_asynchronous_commit_is_tried_once() -> None:
    driven = Driven()
    commit = driven.commits.commit(Commit(offsets(A), is_reported=True))
    driven.answer(E.COORDINATOR_LOAD_IN_PROGRESS)
    assert driven.commits.finished == [commit]


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCoordinatorUnknownInUnsentCallbacksAfterCoordinatorDead",
    "ConsumerCoordinatorTest.testCommitOffsetSyncNotCoordinator",
    "ConsumerCoordinatorTest.testCommitOffsetSyncCoordinatorNotAvailable",
)
def test_a_coordinator_that_moved_is_found_before_the_next_attempt() -> None:
    driven = Driven()
    commit = driven.commits.commit(Commit(offsets(A), retry_until_ms=10_000))
    driven.answer(E.NOT_COORDINATOR)
    assert driven.membership.coordinator is None
    assert driven.commits.next_requests(500) == []
    assert [type(each).__name__ for each in driven.membership.next_requests(500)] == ["FindCoordinator"]
    driven.membership.on_coordinator(2, 500)
    driven.answer(E.NONE, now_ms=500)
    assert commit.error is E.NONE


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCommitOffsetSyncCoordinatorDisconnected", "ConsumerCoordinatorTest.testCloseNoResponseForCommit"
)
def test_a_lost_request_is_retried() -> None:
    driven = Driven()
    commit = driven.commits.commit(Commit(offsets(A), retry_until_ms=10_000))
    (request,) = driven.commits.next_requests(0)
    driven.commits.on_no_response(request, 0)
    driven.membership.on_coordinator(1, 0)
    driven.answer(E.NONE, now_ms=200)
    assert commit.error is E.NONE


@pytest.mark.conformance(
    "ConsumerCoordinatorTest.testCloseCoordinatorNotKnownWithCommits",
    "ConsumerCoordinatorTest.testCloseTimeoutCoordinatorUnavailableForCommit",
    "ConsumerCoordinatorTest.testCloseMaxWaitCoordinatorUnavailableForCommit",
)
def test_without_a_coordinator_a_commit_ends_at_its_deadline() -> None:
    driven = Driven()
    driven.membership.coordinator_lost(0)
    commit = driven.commits.commit(Commit(offsets(A), retry_until_ms=1_000))
    assert driven.commits.next_requests(999) == []
    assert not commit.is_done
    assert driven.commits.next_ms() == 1_000
    driven.commits.next_requests(1_000)
    assert commit.error is E.REQUEST_TIMED_OUT


def test_a_member_that_is_not_in_the_group_cannot_commit() -> None:
    driven = Driven()
    driven.membership.subscribe(frozenset({"t"}))
    commit = driven.commits.commit(Commit(offsets(A)))
    assert driven.commits.next_requests(0) == []
    assert commit.error is E.UNKNOWN_MEMBER_ID


@pytest.mark.conformance("ConsumerCoordinatorTest.testAutoCommitAwaitsInterval")
def test_automatic_commits_follow_their_interval_and_one_another() -> None:
    driven = Driven(auto_commit_interval_ms=1_000)
    driven.subscriptions.add([A], is_ready=True)
    assert driven.commits.auto_commit_ms() is None, "there is nothing to commit"
    driven.subscriptions.partitions[A].stored = OffsetAndMetadata(5)
    assert driven.commits.auto_commit_ms() == 1_000
    driven.commits.poll(999)
    assert driven.commits.next_requests(999) == []
    driven.commits.poll(1_000)
    (request,) = driven.commits.next_requests(1_000)
    driven.commits.poll(5_000)
    assert driven.commits.next_requests(5_000) == [], "the last one is not answered yet"
    driven.commits.on_response(request, {A: E.NONE}, 5_000)
    driven.commits.poll(9_000)
    assert driven.commits.next_requests(9_000) == [], "nothing new"


@pytest.mark.conformance("ConsumerCoordinatorTest.testAutoCommitRetryBackoff")
def test_an_automatic_commit_that_waits_for_its_coordinator_takes_what_is_processed_meanwhile() -> None:
    driven = Driven(auto_commit_interval_ms=1_000)
    driven.subscriptions.add([A], is_ready=True)
    state = driven.subscriptions.partitions[A]
    driven.membership.coordinator_lost(0)
    for now_ms, processed in ((1_000, 7), (1_500, 8), (2_000, 9), (2_500, 10)):
        state.stored = OffsetAndMetadata(processed)
        driven.commits.poll(now_ms)
        assert driven.commits.next_requests(now_ms) == []
    driven.membership.on_coordinator(1, 2_500)
    (request,) = driven.commits.next_requests(2_500)
    assert request.offsets == {A: OffsetAndMetadata(9)}, "at each interval"
    driven.commits.poll(3_000)
    assert request.offsets == {A: OffsetAndMetadata(9)}


def test_an_automatic_commit_that_failed_for_a_while_is_repeated_soon() -> None:
    driven = Driven(auto_commit_interval_ms=60_000)
    driven.subscriptions.add([A], is_ready=True)
    driven.subscriptions.partitions[A].stored = OffsetAndMetadata(5)
    driven.commits.poll(60_000)
    driven.answer(E.COORDINATOR_LOAD_IN_PROGRESS, now_ms=60_000)
    driven.commits.poll(60_100)
    driven.answer(E.NONE, now_ms=60_100)
    assert driven.subscriptions.partitions[A].committed == 5


@pytest.mark.parametrize(
    ("error", "most"),
    [(E.COORDINATOR_LOAD_IN_PROGRESS, 14), (E.REQUEST_TIMED_OUT, 14), (E.NOT_COORDINATOR, 14), (E.UNKNOWN_TOPIC_OR_PARTITION, 6)],
)
def test_an_automatic_commit_that_fails_again_and_again_waits_longer_each_time(error: E, most: int) -> None:
    """Ten seconds of an application that polls all the time, with an interval of five."""
    driven, sent = Driven(auto_commit_interval_ms=5_000), []
    driven.subscriptions.add([A, B], is_ready=True)
    for now_ms in range(5_000, 15_000):
        driven.subscriptions.partitions[A].stored = OffsetAndMetadata(now_ms)
        driven.subscriptions.partitions[B].stored = OffsetAndMetadata(now_ms)
        driven.commits.poll(now_ms)
        if driven.membership.coordinator is None:
            driven.membership.on_coordinator(1, now_ms)
        for request in driven.commits.next_requests(now_ms):
            sent.append(now_ms)
            driven.commits.on_response(request, {A: E.NONE, B: error}, now_ms)
    assert 3 <= len(sent) <= most, sent
    assert driven.subscriptions.partitions[A].committed == sent[-1], "what the coordinator took is committed"


def test_a_topic_that_stays_unknown_is_told_of() -> None:
    """It was deleted: a consumer that closes does not wait for it."""
    driven = Driven()
    driven.subscriptions.add([A, B], is_ready=True)
    commit = driven.commits.commit(Commit(offsets(A, B), retry_until_ms=30_000))
    for now_ms in (0, 100, 300, 700):
        assert not commit.is_done
        driven.answer(E.NONE, E.UNKNOWN_TOPIC_OR_PARTITION, now_ms=now_ms)
    assert commit.is_done
    assert commit.errors == {A: E.NONE, B: E.UNKNOWN_TOPIC_OR_PARTITION}


def test_no_automatic_commits() -> None:
    driven = Driven(is_auto_commit=False)
    driven.subscriptions.add([A], is_ready=True)
    driven.subscriptions.partitions[A].stored = OffsetAndMetadata(5)
    driven.commits.poll(60_000)
    assert driven.commits.next_requests(60_000) == []
    commit = driven.commits.commit_stored(99_000)
    assert commit.offsets == {A: OffsetAndMetadata(5)}
