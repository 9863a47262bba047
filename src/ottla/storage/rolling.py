"""When a segment is full: by bytes, by age, by its indexes, by the offsets that an index entry can hold. It makes no segment.

Source: Kafka's `LogSegment.shouldRoll`.
"""

from zlib import crc32

from ottla.core.records.batch import BatchHeader
from ottla.storage.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.storage.settings import LogSettings


def is_full(active: Segment, first: BatchHeader, *, end_offset: int, size_bytes: int, settings: LogSettings, now_ms: int) -> bool:
    """Whether batches of `size_bytes`, which begin with `first` and end before `end_offset`, must go to a new segment."""
    return bool(active.size) and (
        active.size + size_bytes > settings.segment_bytes
        or end_offset - 1 - active.base_offset > RELATIVE_OFFSET_MAX
        or active.indexes_are_full(settings.segment_index_bytes)
        or _is_old(active, first.max_timestamp_ms, settings, now_ms)
    )


def _is_old(active: Segment, timestamp_ms: int, settings: LogSettings, now_ms: int) -> bool:
    """Age runs in the batches' own time where they have one, else since the segment was made."""
    limit_ms = min(settings.segment_ms, settings.max_compaction_lag_ms) if settings.is_compacted else settings.segment_ms
    jitter_ms = min(settings.segment_jitter_ms, limit_ms)
    if jitter_ms:
        # Spread by the segment's name: as good as dice, and the same in every run.
        limit_ms -= crc32(active.path.encode()) % jitter_ms
    began_ms = active.first_timestamp_ms()
    if began_ms is None or began_ms < 0:
        return now_ms - active.made_ms > limit_ms
    return timestamp_ms - began_ms > limit_ms
