"""Retention of one log: takes the expired segments out of it and marks their files as deleted. The rule is in core/retention.py.

Source: Kafka's `UnifiedLog.deleteOldSegments`.
"""

from collections.abc import Callable
from itertools import islice

from ottla.core.retention import expired_segments
from ottla.storage.file_system import Files
from ottla.storage.log.durability import Durability
from ottla.storage.log.file_names import SNAPSHOT_SUFFIX
from ottla.storage.log.segment_swap import mark_deleted, segment_files
from ottla.storage.log.segments import Segments
from ottla.storage.log.settings import LogSettings


class LogRetention:
    """Of one log; it is asked by the thread that owns the log."""

    __slots__ = ("_durability", "_files", "_segments")

    def __init__(self, files: Files, *, segments: Segments, durability: Durability) -> None:
        self._files = files
        self._segments = segments
        self._durability = durability

    def take_expired(
        self,
        settings: LogSettings,
        *,
        log_start_offset: int,
        high_watermark: int,
        log_end_offset: int,
        now_ms: int,
        segments_max: int | None,
        roll: Callable[[], bool],
    ) -> tuple[str, ...] | None:
        """Take expired segments out of the log, at most `segments_max`; the new paths of their files (`.deleted`). None: none was taken.

        roll: begins a new segment when all segments have expired; False when there is none. Segments that are not durable stay: their
        producer snapshots are needed, and after a crash the log must begin where it did.
        """
        segments = self._segments
        count = expired_segments(
            lambda: islice(segments.aging(log_end_offset), segments_max),
            log_start_offset=log_start_offset,
            high_watermark=high_watermark,
            size_bytes=segments.size_bytes,
            by_age_and_size=settings.is_deleted_from,
            retention_ms=settings.retention_ms,
            retention_bytes=settings.retention_bytes,
            now_ms=now_ms,
        )
        if count and count == len(segments) and not roll():
            count -= 1
        pending = self._durability.rolled_from
        count = count if pending is None else min(count, segments.count_below(pending))
        if not count:
            return None
        gone = segments.take_first(count)
        names = [name for segment in gone for name in segment_files(segment)]
        return mark_deleted(self._files, [*names, *(segment.path + SNAPSHOT_SUFFIX for segment in gone)])
