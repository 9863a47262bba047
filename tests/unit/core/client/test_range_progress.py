"""Failures of a range in a row: when to retry, and when to give up."""

import pytest

from ottla.core.client.fetch_values import FetchPolicy, FetchRange, PartitionRefused, UnknownPartition
from ottla.core.client.leaders import LeaderAndEpoch
from ottla.core.client.range_progress import ATTEMPTS_MIN, SHORT_MS, PreferredReplica, RangeProgress
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition

ZERO = TopicPartition("t", 0)
REFUSED = PartitionRefused(ZERO, ErrorCode.REQUEST_TIMED_OUT)
POLICY = FetchPolicy(api_timeout_ms=5_000)


def fail(progress: RangeProgress, problem: PartitionRefused | UnknownPartition, now_ms: float, *, is_short: bool = False) -> bool:
    return progress.record_failure(problem, now_ms, policy=POLICY, rng=0.5, is_short=is_short, is_connecting=False)


def test_retries_wait_longer_each_time_until_the_timeout() -> None:
    progress = RangeProgress(FetchRange(ZERO, 0, 10))
    waits = []
    for now_ms in (0, 1_000, 2_000, 4_999):
        assert fail(progress, REFUSED, now_ms)
        waits.append(progress.retry_at_ms - now_ms)
    assert waits == [100, 200, 400, 800]
    assert not fail(progress, REFUSED, 5_000)


def test_a_few_attempts_are_made_however_late() -> None:
    progress = RangeProgress(FetchRange(ZERO, 0, 10))
    assert [fail(progress, REFUSED, now_ms) for now_ms in (0, 10_000, 20_000, 30_000)] == [True] * (ATTEMPTS_MIN - 1) + [False]


def test_short_patience_counts_one_kind_of_problem_alone() -> None:
    progress = RangeProgress(FetchRange(ZERO, 0, 10))
    assert all(fail(progress, REFUSED, 0) for _ in range(ATTEMPTS_MIN))
    results = [fail(progress, UnknownPartition(ZERO), now_ms, is_short=True) for now_ms in (100, 200, 300, 100 + SHORT_MS)]
    assert results == [True] * (ATTEMPTS_MIN - 1) + [False]


def test_records_end_a_row_of_failures() -> None:
    progress = RangeProgress(FetchRange(ZERO, 0, 10))
    assert all(fail(progress, REFUSED, 0) for _ in range(ATTEMPTS_MIN))
    progress.advance(7)
    assert (progress.position, progress.fetch_offset, progress.failures) == (7, 7, 0)
    assert fail(progress, REFUSED, 60_000)
    assert progress.retry_at_ms == 60_100


@pytest.mark.conformance("SubscriptionStateTest.testPreferredReadReplicaLease")
def test_a_follower_is_read_for_a_while_and_for_one_leader() -> None:
    progress, leader = RangeProgress(FetchRange(ZERO, 0, 10)), LeaderAndEpoch(1, 5)
    assert progress.broker_id(leader, 0) == 1
    progress.replica = PreferredReplica(2, leader, 1_000)
    assert [progress.broker_id(leader, now_ms) for now_ms in (0, 1_000, 1_001, 1_000)] == [2, 2, 1, 1]
    progress.replica = PreferredReplica(2, leader, 1_000)
    assert progress.broker_id(LeaderAndEpoch(1, 6), 0) == 1


def test_a_few_failures_are_retried_at_once() -> None:
    progress = RangeProgress(FetchRange(ZERO, 0, 10))
    assert [progress.may_retry_at_once(0) for _ in range(ATTEMPTS_MIN)] == [True] * (ATTEMPTS_MIN - 1) + [False]
    progress.advance(5)
    assert progress.may_retry_at_once(0)
