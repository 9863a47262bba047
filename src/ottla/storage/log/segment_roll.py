"""The segment that takes the next batches: the active one, or a new one when it is full by bytes, age, indexes or offsets.

Source: Kafka's `LogSegment.shouldRoll` and `LocalLog.roll`.
"""

from zlib import crc32

from ottla.core.records.batch import BatchHeader
from ottla.storage.file_system import Files
from ottla.storage.log.durability import Durability
from ottla.storage.log.producer_state import ProducerStates
from ottla.storage.log.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.storage.log.segments import Segments
from ottla.storage.log.settings import LogSettings


class SegmentRoller:
    """Begins new segments of one log. A full segment is handed to `durability`, which makes it durable with a producer snapshot."""

    __slots__ = ("_directory", "_durability", "_files", "_producers", "_segments")

    def __init__(self, files: Files, directory: str, *, segments: Segments, durability: Durability, producers: ProducerStates) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._durability = durability
        self._producers = producers

    def segment_for(self, first: BatchHeader, end_offset: int, size_bytes: int, settings: LogSettings, now_ms: int) -> Segment:
        """The segment that takes batches of `size_bytes`, which begin with `first` and end before `end_offset`. Raises StorageError."""
        segments = self._segments
        if segments:
            active = segments.active
            if not is_full(active, first, end_offset=end_offset, size_bytes=size_bytes, settings=settings, now_ms=now_ms):
                return active
        return self.roll(first.base_offset, settings, now_ms)

    def roll(self, base_offset: int, settings: LogSettings, now_ms: int) -> Segment:
        """Begin a segment at the log's end. Raises StorageError; the active segment is the same as before then."""
        segment = Segment(self._files, self._directory, base_offset, index_interval_bytes=settings.index_interval_bytes, made_ms=now_ms)
        rolled = self._segments.active if self._segments else None
        if rolled is None:
            self._files.make_directory(self._directory)
        else:
            rolled.write_indexes(final=True)
        # The new files come last: as soon as they exist, batches must go nowhere else.
        segment.create()
        self._segments.add(segment)
        self._durability.names_changed()
        if rolled is not None:
            self._durability.rolled(rolled, base_offset, self._producers.encode())
        return segment


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
        # Spread by the segment's name: as even as random numbers, and the same in every run.
        limit_ms -= crc32(active.path.encode()) % jitter_ms
    began_ms = active.first_timestamp_ms()
    if began_ms is None or began_ms < 0:
        return now_ms - active.made_ms > limit_ms
    return timestamp_ms - began_ms > limit_ms
