"""Three lags in time, of a group in a partition, each with a quality: age of the next record, freshness, time until the lag is gone.

- age of the next record: how long the record that the group reads next has waited; 0 if none waits
- freshness: the time between the last record that the group has committed and the last record of the partition; 0 if they are the same
- drain time: the lag divided by the difference of the rates at which the group commits and producers write

Times of records are exact where the records are known. Otherwise they are interpolated between points: ends of the log at known times. A
record before the first point has a time that is extrapolated, at most EXTRAPOLATED_MS_MAX back. Nothing is said of a commit beyond the end:
the topic was truncated or re-created. The Spark pipeline `lag` has the same rules as columns.
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum
from math import floor
from typing import Final, NamedTuple

from ottla.protocol.model import TopicPartition

EXTRAPOLATED_MS_MAX: Final = 600_000
RATE_WINDOW_MS: Final = 600_000
"""The time over which rates are taken."""

DRAIN_MS_MAX: Final = 7 * 86_400_000


class Quality(StrEnum):
    """How well a time is known, best first."""

    EXACT = "exact"
    INTERPOLATED = "interpolated"
    CAPPED = "extrapolated-capped"
    UNKNOWN = "unknown"


class TimeLag(NamedTuple):
    """A lag in milliseconds, None if unknown."""

    ms: int | None
    quality: Quality


class LogEnd(NamedTuple):
    """Where a log ended at a time (ms since 1970): the offset of the next record."""

    at_ms: int
    end: int


class RecordTime(NamedTuple):
    """A record's offset and timestamp (ms since 1970)."""

    offset: int
    at_ms: int


class Position(NamedTuple):
    """A group's commit in a partition, and the log's start and end now."""

    committed: int
    start: int
    end: int
    now_ms: int


NONE: Final = TimeLag(0, Quality.EXACT)
UNKNOWN: Final = TimeLag(None, Quality.UNKNOWN)


def since_truncation(ends: Iterable[LogEnd]) -> list[LogEnd]:
    """Measured ends since the log last became shorter, in the order of time: earlier ones are of records that are gone."""
    kept: list[LogEnd] = []
    for end in sorted(ends):
        if kept and end.end < kept[-1].end:
            kept.clear()
        kept.append(end)
    return kept


class RecordTimes:
    """When the records of a partition were written. `records` are all its records or none; `ends` are in any order."""

    def __init__(self, records: Iterable[RecordTime], ends: Iterable[LogEnd]) -> None:
        self._records = sorted(records)
        # An end that stays for a while is reached at the first of its times and left after the last.
        points: dict[int, tuple[int, int]] = {}
        for at_ms, end in ends:
            first_ms, last_ms = points.get(end, (at_ms, at_ms))
            points[end] = min(first_ms, at_ms), max(last_ms, at_ms)
        self._points = [(end, *times) for end, times in sorted(points.items())]

    @property
    def has_records(self) -> bool:
        """Whether the records themselves are known."""
        return bool(self._records)

    def first_from(self, offset: int, end: int) -> int | None:
        """The timestamp of the first record at or after an offset and before the end; None if there is none."""
        at = bisect_left(self._records, (offset,))
        return self._records[at].at_ms if at < len(self._records) and self._records[at].offset < end else None

    def last_until(self, offset: int) -> int | None:
        """The timestamp of the last record at or before an offset."""
        at = bisect_right(self._records, (offset, float("inf")))
        return self._records[at - 1].at_ms if at else None

    def estimate(self, offset: int) -> TimeLag:
        """When the record at an offset was written, by the ends of the log."""
        at = bisect_right(self._points, (offset, float("inf")))
        if at == len(self._points):
            return UNKNOWN
        end, reached_ms, _ = self._points[at]
        if at > 0:
            before, _, left_ms = self._points[at - 1]
            return TimeLag(reached_ms - floor((end - offset - 1) / (end - before) * (reached_ms - left_ms)), Quality.INTERPOLATED)
        last, last_ms, _ = self._points[-1]
        if last == end or last_ms <= reached_ms:
            return UNKNOWN
        back_ms = floor((end - offset - 1) / (last - end) * (last_ms - reached_ms))
        return TimeLag(reached_ms - min(back_ms, EXTRAPOLATED_MS_MAX), Quality.CAPPED)


def next_record_age(at: Position, times: RecordTimes) -> TimeLag:
    """How long the group's next record has waited."""
    offset = max(at.committed, at.start)
    if at.committed > at.end:
        return UNKNOWN
    if offset >= at.end:
        return NONE
    if not times.has_records:
        written = times.estimate(offset)
        return UNKNOWN if written.ms is None else TimeLag(max(0, at.now_ms - written.ms), written.quality)
    written_ms = times.first_from(offset, at.end)
    # Compaction may have left none, or only markers of transactions.
    return NONE if written_ms is None else TimeLag(max(0, at.now_ms - written_ms), Quality.EXACT)


def freshness(at: Position, times: RecordTimes) -> TimeLag:
    """The time between the last committed record and the last record."""
    if at.committed > at.end or (at.committed == 0 < at.end):
        return UNKNOWN
    if at.committed == at.end:
        return NONE
    read_ms, last_ms = times.last_until(at.committed - 1), times.last_until(at.end - 1)
    if read_ms is not None and last_ms is not None:
        return TimeLag(max(0, last_ms - read_ms), Quality.EXACT)
    read, last = times.estimate(at.committed - 1), times.estimate(at.end - 1)
    if read.ms is None or last.ms is None:
        return UNKNOWN
    worse = Quality.CAPPED if Quality.CAPPED in (read.quality, last.quality) else Quality.INTERPOLATED
    return TimeLag(max(0, last.ms - read.ms), worse)


def rate(points: Sequence[tuple[int, int]], now_ms: int) -> float | None:
    """Offsets a second from the first of (ms, offset) in the last RATE_WINDOW_MS until now, when the last of them holds; None for one."""
    recent = [point for point in sorted(points) if now_ms - RATE_WINDOW_MS <= point[0] <= now_ms]
    if len(recent) < 2 or recent[0][0] >= now_ms:
        return None
    return (recent[-1][1] - recent[0][1]) * 1000 / (now_ms - recent[0][0])


def drain_time(at: Position, consumed_per_s: float | None, produced_per_s: float | None) -> TimeLag:
    """When the lag will be gone if both rates stay; unknown if they are, and if the lag does not shrink."""
    if at.committed > at.end:
        return UNKNOWN
    if at.committed == at.end:
        return NONE
    if consumed_per_s is None or produced_per_s is None or consumed_per_s <= produced_per_s:
        return UNKNOWN
    ms = (at.end - at.committed) / (consumed_per_s - produced_per_s) * 1000
    return TimeLag(DRAIN_MS_MAX, Quality.CAPPED) if ms > DRAIN_MS_MAX else TimeLag(round(ms), Quality.INTERPOLATED)


ENDS_INTERVAL_MS: Final = 30_000
ENDS_MAX: Final = 60
"""Ends of a log that are remembered: half an hour."""
PARTITIONS_MAX: Final = 2_000
"""Partitions whose ends are remembered."""


class LogEnds:
    """Ends of logs as they are looked at, and how long the next record of a group has waited by them."""

    def __init__(self) -> None:
        self._ends: dict[TopicPartition, deque[LogEnd]] = {}
        self._times: dict[TopicPartition, RecordTimes] = {}
        """By the ends until the last look."""

    def note(self, at_ms: int, ends: Mapping[TopicPartition, int]) -> None:
        """Remember where logs end now; partitions that are missing are forgotten."""
        self._times.clear()
        for partition in self._ends.keys() - ends.keys():
            del self._ends[partition]
        for partition, end in ends.items():
            known = self._ends.get(partition)
            if known is None:
                if len(self._ends) >= PARTITIONS_MAX:
                    continue
                known = self._ends[partition] = deque(maxlen=ENDS_MAX)
            if known and end < known[-1].end:
                known.clear()  # the topic was created again
            if not known or at_ms - known[-1].at_ms >= ENDS_INTERVAL_MS:
                known.append(LogEnd(at_ms, end))

    def waited_ms(self, partition: TopicPartition, committed: int, end: int, now_ms: int) -> int | None:
        """How long the record at a committed offset has waited; `end` is as of the last look. None where the ends do not say."""
        if committed >= end:
            return 0 if committed == end else None
        times = self._times.get(partition)
        if times is None:
            known = self._ends.get(partition)
            if known is None:
                return None
            times = self._times[partition] = RecordTimes((), [*known, LogEnd(now_ms, end)])
        age = next_record_age(Position(committed, 0, end, now_ms), times)
        return age.ms if age.quality in (Quality.EXACT, Quality.INTERPOLATED) else None
