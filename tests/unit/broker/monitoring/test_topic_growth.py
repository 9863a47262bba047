"""Growth over a sliding hour, in bounded memory, by a clock that the test moves."""

import pytest

from ottla.broker.monitoring import topic_growth
from ottla.broker.monitoring.topic_growth import POINTS, SPAN_MS_MIN, WINDOW_MS, Growth, PartitionSize, TopicGrowth
from ottla.protocol.model import TopicPartition

MINUTE = 60_000


def sizes(**bytes_by_topic: int) -> list[PartitionSize]:
    return [PartitionSize(TopicPartition(topic, 0), size) for topic, size in bytes_by_topic.items()]


def test_what_was_there_before_is_no_growth() -> None:
    growth = TopicGrowth()
    growth.add(sizes(a=5_000), 0)
    growth.add(sizes(a=5_100), SPAN_MS_MIN)
    assert growth.of("a", SPAN_MS_MIN) == Growth(100, SPAN_MS_MIN)
    growth.add([*sizes(a=5_100), PartitionSize(TopicPartition("a", 1), 70_000)], 2 * MINUTE)
    assert growth.of("a", 2 * MINUTE) == Growth(100, 2 * MINUTE)


def test_too_short_a_time_says_nothing() -> None:
    growth = TopicGrowth()
    growth.add(sizes(a=0), 0)
    growth.add(sizes(a=100), SPAN_MS_MIN - 1)
    assert growth.of("a", SPAN_MS_MIN - 1) == Growth(0, 0)
    assert growth.of("unknown", 5) == Growth(0, 0)


def test_the_window_slides() -> None:
    growth = TopicGrowth()
    for minute in range(200):
        growth.add(sizes(a=minute * 1000 if minute < 100 else 100_000), minute * MINUTE)
    grown = growth.of("a", 199 * MINUTE)
    assert WINDOW_MS <= grown.over_ms <= WINDOW_MS + WINDOW_MS // POINTS
    assert grown.by_bytes == 0
    growth = TopicGrowth()
    for minute in range(200):
        growth.add(sizes(a=minute * 1000), minute * MINUTE)
    grown = growth.of("a", 199 * MINUTE)
    assert grown.by_bytes * MINUTE == grown.over_ms * 1000


def test_cleaning_shows_as_shrinking() -> None:
    growth = TopicGrowth()
    growth.add(sizes(a=100), 0)
    growth.add(sizes(a=150), MINUTE)
    growth.add(sizes(a=20), 2 * MINUTE)
    assert growth.of("a", 2 * MINUTE) == Growth(-80, 2 * MINUTE)


def test_memory_is_bounded() -> None:
    growth = TopicGrowth()
    for second in range(0, 20_000, 5):
        growth.add(sizes(a=second), second * 1000)
    assert len(growth._points["a"]) <= POINTS + 1


def test_topics_are_bounded_and_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_growth, "TOPICS_MAX", 2)
    growth = TopicGrowth()
    growth.add(sizes(a=0, b=0, c=0), 0)
    growth.add(sizes(a=1, b=2, c=3), MINUTE)
    assert [growth.of(topic, MINUTE).by_bytes for topic in "abc"] == [1, 2, 0]
    growth.add(sizes(b=2), 2 * MINUTE)
    assert growth.of("a", 2 * MINUTE) == Growth(0, 0)
    growth.add(sizes(a=900, b=2), 3 * MINUTE)
    growth.add(sizes(a=900, b=2), 4 * MINUTE)
    assert growth.of("a", 4 * MINUTE) == Growth(0, MINUTE), "a topic that comes back starts at 0 again"
