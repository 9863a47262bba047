"""When metadata is asked for."""

from typing import Any

import pytest

from ottla.client.engine.cluster import ClusterView
from ottla.client.engine.values import ConsumerSettings, Endpoint, MetadataResponse
from ottla.client.fetch.leaders import LeaderAndEpoch, Leaders, PartitionMetadata, TopicMetadata
from ottla.client.membership.values import GroupSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

T = frozenset({"t"})


def topic(name: str, error: ErrorCode = ErrorCode.NONE, is_internal: bool = False) -> TopicMetadata:
    return TopicMetadata(name, error, "", is_internal, {0: PartitionMetadata(ErrorCode.NONE, LeaderAndEpoch(1))})


class Driven:
    def __init__(self) -> None:
        self.leaders = Leaders()
        self.view = ClusterView(ConsumerSettings(group=GroupSettings(group_id="g")), self.leaders, rng=lambda: 0.5)

    def ask(self, now_ms: float, topics: frozenset[str] = T, is_all: bool = False) -> Any:
        return self.view.next_request(topics, is_all=is_all, now_ms=now_ms)

    def answer(self, request: Any, now_ms: float, *topics: TopicMetadata) -> None:
        self.view.on_response(request, MetadataResponse({1: Endpoint("h", 1)}, topics), now_ms)


def test_topics_are_asked_for_once_and_again_when_metadata_is_old() -> None:
    driven = Driven()
    request = driven.ask(0)
    assert request.topics == ("t",)
    assert driven.ask(0) is None, "one is in flight"
    assert driven.view.next_ms() is None
    driven.answer(request, 10, topic("t"))
    assert driven.view.partitions == {"t": 1}
    assert driven.leaders.leader(TopicPartition("t", 0)) == LeaderAndEpoch(1)
    assert driven.ask(1_000) is None
    assert driven.view.next_ms() == 300_010
    assert driven.ask(300_010) is not None


def test_a_new_topic_and_a_wanted_one_are_asked_for_soon() -> None:
    driven = Driven()
    driven.answer(driven.ask(0), 0, topic("t"))
    assert driven.ask(50, T | {"u"}) is None, "not more often than retry.backoff.ms"
    request = driven.ask(100, T | {"u"})
    assert request.topics == ("t", "u")
    driven.answer(request, 100, topic("t"), topic("u"))
    driven.view.request_update(["t"])
    assert driven.view.next_ms() == 200
    assert driven.ask(200).topics == ("t",)


def test_a_topic_that_does_not_exist_is_asked_for_soon_then_later_and_later() -> None:
    driven = Driven()
    now_ms = 0.0
    for wait_ms in (100, 200, 400, 800, 1_000, 1_000):
        driven.answer(driven.ask(now_ms), now_ms, topic("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        assert driven.ask(now_ms + wait_ms - 1) is None
        assert driven.view.next_ms() == now_ms + wait_ms
        now_ms += wait_ms
    driven.answer(driven.ask(now_ms), now_ms, topic("t"))
    driven.answer(driven.ask(now_ms + 100, T | {"u"}), now_ms + 100, topic("t"), topic("u", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert driven.view.next_ms() == now_ms + 200, "another one is looked for soon again"


def test_a_topic_that_was_deleted_is_forgotten() -> None:
    driven = Driven()
    driven.answer(driven.ask(0), 0, topic("t"))
    driven.answer(driven.ask(300_000), 300_000, topic("t", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
    assert driven.view.partitions == {}


@pytest.mark.conformance("ConsumerCoordinatorTest.testExcludeInternalTopicsConfigOption")
def test_all_topics_for_patterns() -> None:
    driven = Driven()
    request = driven.ask(0, frozenset(), True)
    assert request.topics is None
    driven.answer(request, 0, topic("t"), topic("__internal", is_internal=True))
    assert driven.view.internal == {"__internal"}
    assert driven.ask(1_000, frozenset(), True) is None


def test_a_lost_request_is_repeated_after_a_back_off() -> None:
    driven = Driven()
    driven.ask(0)
    driven.view.on_no_response(0)
    assert driven.ask(99) is None
    assert driven.view.next_ms() == 100
    driven.ask(100)
    driven.view.on_no_response(100)
    assert driven.view.next_ms() == 300
    driven.answer(driven.ask(300), 300, topic("t"))
    driven.ask(300_300)
    driven.view.on_no_response(300_300)
    assert driven.view.next_ms() == 300_400, "of a topic that is known, too"


def test_nothing_of_interest_is_not_asked_for() -> None:
    assert Driven().ask(0, frozenset()) is None


def test_brokers_are_asked_for_without_topics() -> None:
    driven = Driven()
    assert driven.view.next_ms(has_topics=False) is None
    assert driven.ask(0, frozenset()) is None
    driven.view.request_brokers()
    assert driven.view.next_ms(has_topics=False) == 0
    request = driven.ask(0, frozenset())
    assert request.topics == ()
    driven.view.on_no_response(0)
    request = driven.ask(1_000, frozenset())
    driven.answer(request, 1_010)
    assert driven.view.endpoints == {1: Endpoint("h", 1)}
    assert driven.ask(9_999_999, frozenset()) is None
