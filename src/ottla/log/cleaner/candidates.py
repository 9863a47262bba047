"""Which log is cleaned next, and from where to where: dirty ratio, compaction lags, last stable offset. Numbers in, a decision out.

It reads no file and keeps nothing; the cleaner and the health report ask it. Source: Kafka's `LogCleanerManager` and `LogToClean`.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Generic, NamedTuple, Protocol, TypeVar


class CleanableSegment(Protocol):
    """A segment that takes no more batches; the next one begins at `next_base_offset`."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def largest_timestamp_ms(self) -> int: ...


SegmentT = TypeVar("SegmentT", bound=CleanableSegment)
SegmentT_co = TypeVar("SegmentT_co", bound=CleanableSegment, covariant=True)
LogT = TypeVar("LogT")


class CompactionSettings(Protocol):
    """The settings of one log that matter here."""

    @property
    def min_cleanable_dirty_ratio(self) -> float: ...
    @property
    def min_compaction_lag_ms(self) -> int: ...
    @property
    def max_compaction_lag_ms(self) -> int: ...


class CompactedLog(Protocol, Generic[SegmentT_co]):
    """One log: `segments` are those that may be cleaned as far as the log goes, oldest first and without a hole between them."""

    @property
    def settings(self) -> CompactionSettings: ...
    @property
    def log_start_offset(self) -> int: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def last_stable_offset(self) -> int: ...
    @property
    def segments(self) -> Sequence[SegmentT_co]: ...


class Candidate(NamedTuple):
    """A log that could be cleaned: dirty from `first_dirty_offset` on, to be cleaned up to (not including) `first_uncleanable_offset`.

    clean_bytes, cleanable_bytes: before the first dirty offset, and between the two, in whole segments (one may count on both sides).
    overdue_ms: for how long dirty data has been older than max.compaction.lag.ms; 0 when it is not.
    is_due: it is dirty enough, or overdue. has_new_start: the checkpoint was no offset of this log and is to be set to the first dirty one.
    """

    first_dirty_offset: int
    first_uncleanable_offset: int
    clean_bytes: int
    cleanable_bytes: int
    overdue_ms: int
    is_due: bool
    has_new_start: bool

    @property
    def dirty_ratio(self) -> float:
        """The cleanable share of what is clean or cleanable; 0 without either."""
        total_bytes = self.clean_bytes + self.cleanable_bytes
        return self.cleanable_bytes / total_bytes if total_bytes else 0.0


def assess(
    log: CompactedLog[SegmentT], checkpoint: int | None, now_ms: int, *, first_timestamp_ms: Callable[[SegmentT], int | None]
) -> Candidate:
    """How the log stands. `checkpoint`: up to where it was cleaned, None when it never was.

    `first_timestamp_ms` gives the time of a segment's first batch; it is asked only when max.compaction.lag.ms may matter.
    """
    settings, start = log.settings, log.log_start_offset
    is_known = checkpoint is None or start <= checkpoint <= log.log_end_offset
    first_dirty = start if checkpoint is None or not is_known else checkpoint
    dirty = [segment for segment in log.segments if segment.next_base_offset > first_dirty]
    cleanable = dirty[: _cleanable(dirty, log.last_stable_offset, settings.min_compaction_lag_ms, now_ms)]
    clean_bytes = sum(segment.size_bytes for segment in log.segments if segment.base_offset < first_dirty)
    cleanable_bytes = sum(segment.size_bytes for segment in cleanable)
    found = Candidate(
        first_dirty,
        cleanable[-1].next_base_offset if cleanable else first_dirty,
        clean_bytes,
        cleanable_bytes,
        _overdue_ms(dirty, settings.max_compaction_lag_ms, now_ms, first_timestamp_ms),
        is_due=False,
        has_new_start=not is_known,
    )
    is_due = found.dirty_ratio > settings.min_cleanable_dirty_ratio or (found.overdue_ms > 0 and cleanable_bytes > 0)
    return found._replace(is_due=is_due)


def filthiest(candidates: Iterable[tuple[LogT, Candidate]]) -> tuple[LogT, Candidate] | None:
    """Of those that are due the one with the highest dirty ratio; None when none is due."""
    return max((each for each in candidates if each[1].is_due), key=lambda each: each[1].dirty_ratio, default=None)


def _cleanable(dirty: Sequence[CleanableSegment], last_stable_offset: int, min_compaction_lag_ms: int, now_ms: int) -> int:
    """How many of the dirty segments may be cleaned: none that reaches past the last stable offset or is too young, nor any behind it."""
    for number, segment in enumerate(dirty):
        is_young = min_compaction_lag_ms > 0 and segment.largest_timestamp_ms > now_ms - min_compaction_lag_ms
        if is_young or segment.next_base_offset > last_stable_offset:
            return number
    return len(dirty)


def _overdue_ms(
    dirty: Sequence[SegmentT], max_compaction_lag_ms: int, now_ms: int, first_timestamp_ms: Callable[[SegmentT], int | None]
) -> int:
    until_ms = now_ms - max(0, max_compaction_lag_ms)
    if until_ms <= 0:
        return 0
    oldest_ms = min((time_ms for segment in dirty if (time_ms := first_timestamp_ms(segment) or 0) > 0), default=until_ms)
    return max(0, until_ms - oldest_ms)
