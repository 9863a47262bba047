"""Figures over time, as Kafka's clients keep them: totals since the start, and averages, maxima and rates of the last minute.

Recording costs a few additions. Source: Kafka's `SampledStat`, with its defaults: two samples of 30 s.
"""

from math import nan
from typing import Final

WINDOW_MS: Final = 30_000.0


class Sensor:
    """Values of one kind. `total` and `count` are since the start; all else is about the current sample and the one before it."""

    __slots__ = ("_before", "_count", "_max", "_starts_ms", "_sum", "count", "total")

    def __init__(self, now_ms: float) -> None:
        self.total = 0.0
        self.count = 0
        self._starts_ms = now_ms
        self._count = 0
        self._sum = self._max = 0.0
        self._before = (0, 0.0, 0.0)

    def record(self, value: float, now_ms: float) -> None:
        """Add one value, which is not negative."""
        if now_ms >= self._starts_ms + WINDOW_MS:
            self._roll(now_ms)
        self.count += 1
        self.total += value
        self._count += 1
        self._sum += value
        if value > self._max:
            self._max = value

    def sum(self, now_ms: float) -> float:
        """The sum of the recent values."""
        self._roll(now_ms)
        return self._sum + self._before[1]

    def average(self, now_ms: float) -> float:
        """The average of the recent values; NaN without one."""
        self._roll(now_ms)
        count = self._count + self._before[0]
        return (self._sum + self._before[1]) / count if count else nan

    def maximum(self, now_ms: float) -> float:
        """The largest of the recent values; NaN without one."""
        self._roll(now_ms)
        return max(self._max, self._before[2]) if self._count or self._before[0] else nan

    def count_rate(self, now_ms: float) -> float:
        """Recent values per second."""
        self._roll(now_ms)
        return (self._count + self._before[0]) / self._seconds(now_ms)

    def sum_rate(self, now_ms: float) -> float:
        """The sum of the recent values per second."""
        return self.sum(now_ms) / self._seconds(now_ms)

    def _seconds(self, now_ms: float) -> float:
        """How long the samples took: at least one of them, so that the first values are no extreme rates."""
        return (WINDOW_MS + now_ms - self._starts_ms) / 1000

    def _roll(self, now_ms: float) -> None:
        """Begin another sample when the current one is over."""
        age_ms = now_ms - self._starts_ms
        if age_ms < WINDOW_MS:
            return
        self._before = (self._count, self._sum, self._max) if age_ms < 2 * WINDOW_MS else (0, 0.0, 0.0)
        self._starts_ms += age_ms - age_ms % WINDOW_MS
        self._count = 0
        self._sum = self._max = 0.0
