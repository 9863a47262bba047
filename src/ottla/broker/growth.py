"""How fast topics grow: their sizes over the last hour, a few points a topic, in bounded memory. It measures nothing itself."""

from collections import deque
from collections.abc import Iterable
from typing import Final, NamedTuple

from ottla.core.model import TopicPartition

WINDOW_MS: Final = 3_600_000
POINTS: Final = 12
"""Points of a topic in the window; one is kept every WINDOW_MS / POINTS."""
TOPICS_MAX: Final = 1_000
"""Topics that are watched; of further ones no growth is told."""
SPAN_MS_MIN: Final = 60_000
"""Over less time, growth is noise."""


class PartitionSize(NamedTuple):
    """One measurement."""

    name: TopicPartition
    size_bytes: int


class Grown(NamedTuple):
    """Bytes gained (or lost) over a time; both 0 while it was not watched for long enough."""

    by_bytes: int
    over_ms: int


class _Point(NamedTuple):
    at_ms: int
    grown_bytes: int


class Growth:
    """The sum of what each topic's partitions gained and lost since each was first seen.

    A partition that is seen for the first time does not count as growth: it may have lain on the disk for long.
    """

    def __init__(self) -> None:
        self._sizes: dict[TopicPartition, int] = {}
        self._grown: dict[str, int] = {}
        self._points: dict[str, deque[_Point]] = {}

    def note(self, sizes: Iterable[PartitionSize], now_ms: int) -> None:
        """Takes the sizes of all partitions there are; what is not among them is forgotten."""
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

    def of(self, topic: str, now_ms: int) -> Grown:
        """The growth over the last hour, or since the topic was first seen."""
        points = self._points.get(topic)
        if not points or now_ms - points[0].at_ms < SPAN_MS_MIN:
            return Grown(0, 0)
        return Grown(self._grown[topic] - points[0].grown_bytes, now_ms - points[0].at_ms)
