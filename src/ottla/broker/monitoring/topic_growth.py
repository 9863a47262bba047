"""How fast topics grow: their sizes over the last hour, a few points a topic, in bounded memory. Sizes are passed in."""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.protocol.model import TopicPartition

WINDOW_MS: Final = 3_600_000
POINTS: Final = 12
"""Points of a topic in the window; one is kept every WINDOW_MS / POINTS."""
TOPICS_MAX: Final = 1_000
"""Topics whose growth is known; of others it is 0."""
SPAN_MS_MIN: Final = 60_000
"""Growth over less time is noise."""


class PartitionSize(NamedTuple):
    """One measurement."""

    name: TopicPartition
    size_bytes: int


class Growth(NamedTuple):
    """Bytes gained (or lost) over a time in ms; both 0 while the topic has not been sampled for long enough."""

    by_bytes: int
    over_ms: int


class _Point(NamedTuple):
    at_ms: int
    grown_bytes: int


class TopicGrowth:
    """The sum of what each topic's partitions gained and lost since each was first seen.

    A partition that is seen for the first time does not count as growth: it may be old.
    """

    def __init__(self) -> None:
        self._sizes: dict[TopicPartition, int] = {}
        self._grown: dict[str, int] = {}
        self._points: dict[str, deque[_Point]] = {}

    def add(self, sizes: Iterable[PartitionSize], now_ms: int) -> None:
        """Take the sizes of all partitions; topics that are not among them are forgotten."""
        before, self._sizes = self._sizes, {}
        topics: set[str] = set()
        for name, size_bytes in sizes:
            self._sizes[name] = size_bytes
            topic = name.topic
            if topic in topics or len(topics) < TOPICS_MAX:
                topics.add(topic)
                self._grown[topic] = self._grown.get(topic, 0) + size_bytes - before.get(name, size_bytes)
        for topic in self._grown.keys() - topics:
            del self._grown[topic]
            self._points.pop(topic, None)
        for topic in topics:
            points = self._points.setdefault(topic, deque())
            if not points or now_ms - points[-1].at_ms >= WINDOW_MS // POINTS:
                points.append(_Point(now_ms, self._grown[topic]))
            while len(points) > 1 and (points[1].at_ms <= now_ms - WINDOW_MS or len(points) > POINTS + 1):
                points.popleft()

    def of(self, topic: str, now_ms: int) -> Growth:
        """The growth over the last hour, or since the topic was first seen."""
        points = self._points.get(topic)
        if not points or now_ms - points[0].at_ms < SPAN_MS_MIN:
            return Growth(0, 0)
        return Growth(self._grown[topic] - points[0].grown_bytes, now_ms - points[0].at_ms)
