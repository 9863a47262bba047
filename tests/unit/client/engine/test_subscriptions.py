"""Subscriptions and the state of assigned partitions."""

import re

import pytest

from ottla.client.engine.subscriptions import Subscriptions
from ottla.client.engine.values import LATEST, STORED, OffsetAndMetadata
from ottla.protocol.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.conformance("SubscriptionStateTest.patternSubscription", "SubscriptionStateTest.cantAssignPartitionForUnmatchedPattern")
def test_topics_and_patterns() -> None:
    subscriptions = Subscriptions()
    assert subscriptions.is_empty
    subscriptions.subscribe(["a"], [re.compile("^b+$")])
    assert subscriptions.matching(["bb", "c", "bc"]) == {"a", "bb"}
    assert [each for each in ("a", "b", "c") if subscriptions.accepts(each)] == ["a", "b"]
    subscriptions.unsubscribe()
    assert subscriptions.is_empty
    assert not subscriptions.accepts("a")


def test_records_of_topics_that_are_named_no_more_are_not_handed_out() -> None:
    subscriptions = Subscriptions()
    assert subscriptions.reads("a"), "partitions that are assigned by hand have no subscription"
    subscriptions.subscribe(["a"], [])
    subscriptions.subscribe(["b"], [])
    assert [each for each in ("a", "b") if subscriptions.reads(each)] == ["b"]
    subscriptions.subscribe(["b"], [re.compile("^c")])
    assert subscriptions.reads("a"), "patterns are applied by the next rebalance"


def test_assigned_partitions() -> None:
    subscriptions = Subscriptions()
    subscriptions.add([B, A], is_ready=True)
    assert subscriptions.by_topic() == {"t": [0, 1]}
    subscriptions.remove([A, A])
    assert list(subscriptions.partitions) == [B]


@pytest.mark.conformance("SubscriptionStateTest.partitionPause")
def test_a_partition_is_fetched_from_a_known_position_unless_paused() -> None:
    subscriptions = Subscriptions()
    subscriptions.add([A], is_ready=False)
    state = subscriptions.partitions[A]
    assert (state.wants, state.is_fetchable) == (STORED, False)
    state.seek(5)
    assert not state.is_fetchable
    state.is_ready = True
    assert state.is_fetchable
    state.is_paused = True
    assert not state.is_fetchable
    state.find(LATEST, 3)
    assert (state.position, state.wants, state.tail) == (None, LATEST, 3)


@pytest.mark.conformance("SubscriptionStateTest.testSeekUnvalidatedWithOffsetEpoch")
def test_a_position_with_an_epoch_is_validated_first() -> None:
    subscriptions = Subscriptions()
    subscriptions.add([A], is_ready=True)
    state = subscriptions.partitions[A]
    state.seek(5, 2)
    assert (state.awaits_validation, state.has_valid_position, state.is_fetchable) == (True, False, False)
    state.seek(5, 2, is_valid=True)
    assert (state.awaits_validation, state.is_fetchable) == (False, True)
    state.seek(5, 2)
    state.find(LATEST)
    assert (state.awaits_validation, state.has_valid_position) == (False, False)


def test_what_is_stored_and_not_committed() -> None:
    subscriptions = Subscriptions()
    subscriptions.add([A, B], is_ready=True)
    subscriptions.partitions[A].stored = OffsetAndMetadata(3)
    assert subscriptions.uncommitted() == {A: OffsetAndMetadata(3)}
    subscriptions.partitions[A].committed = 3
    assert subscriptions.uncommitted() == {}


@pytest.mark.conformance("FetcherTest.testReadCommittedLagMetric")
def test_the_lag_of_a_partition() -> None:
    subscriptions = Subscriptions()
    subscriptions.add([A], is_ready=True)
    state = subscriptions.partitions[A]
    state.high_watermark, state.last_stable_offset = 20, 15
    assert state.lag(is_read_committed=False) is None, "the position is not known"
    state.seek(12)
    assert (state.lag(is_read_committed=False), state.lag(is_read_committed=True)) == (8, 3)
    state.seek(18)
    assert state.lag(is_read_committed=True) == 0
    state.high_watermark = -1
    assert state.lag(is_read_committed=False) is None
