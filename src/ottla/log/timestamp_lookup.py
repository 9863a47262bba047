"""Offsets by timestamp, looked up in a log on another thread than its own, which continues to append, roll, clean and delete.

Nothing of the log is changed and no index is rebuilt: where an index file is missing or wrong, batch headers are read instead. A file is
opened by its name while `Segments.names` is held and only if its segment still belongs to the log; when a segment has gone, the search
begins again with those that there are now.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from ottla.log.checkpoints import INDEX_SUFFIX, LOG_SUFFIX, TIME_INDEX_SUFFIX
from ottla.log.file_system import File, Files
from ottla.log.index import OffsetIndex, TimeIndex
from ottla.log.segment import NO_TIMESTAMP, Segment, ends_at_a_batch, walk_batches
from ottla.log.segment_facts import segment_facts
from ottla.log.segments import Segments
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.records.batch import BatchHeader, stored_section
from ottla.protocol.records.compression import Compressed
from ottla.protocol.records.record_checks import FindTimestamp, find_timestamp

Found = tuple[int, int]
"""Timestamp and offset."""


class _SegmentGone(Exception):
    """A segment was deleted or replaced while it was searched."""


class TimestampLookup:
    """A lookup finds all records that the log had when this object was made, and perhaps later ones."""

    __slots__ = ("_files", "_from_offset", "_segments")

    def __init__(self, files: Files, segments: Segments, from_offset: int) -> None:
        self._files = files
        self._segments = segments
        self._from_offset = from_offset

    def first_at(self, timestamp_ms: int, find: FindTimestamp = find_timestamp) -> Found | None:
        """The first record at or after `timestamp_ms`; None when there is none. Raises StorageError."""
        while True:
            try:
                return self._search(self._segments.all(), timestamp_ms, find)
            except _SegmentGone:
                continue

    def latest(self, find: FindTimestamp = find_timestamp) -> Found | None:
        """The first record with the largest timestamp; None when no record has one. Raises StorageError."""
        while True:
            try:
                segments = self._segments.all()
                latest_ms = max(map(self._largest_timestamp_ms, segments), default=NO_TIMESTAMP)
                return None if latest_ms == NO_TIMESTAMP else self._search(segments, latest_ms, find)
            except _SegmentGone:
                continue

    def _search(self, segments: list[Segment], timestamp_ms: int, find: FindTimestamp) -> Found | None:
        ends = [segment.base_offset for segment in segments[1:]]
        for segment, end_offset in zip(segments, [*ends, None]):
            if end_offset is not None and end_offset <= self._from_offset:
                continue
            if self._largest_timestamp_ms(segment) >= timestamp_ms:
                found = self._search_segment(segment, timestamp_ms, find)
                if found is not None:
                    return found
        return None

    def _search_segment(self, segment: Segment, timestamp_ms: int, find: FindTimestamp) -> Found | None:
        with self._opened(segment) as log:
            for position, header in walk_batches(log, self._position_for(segment, log, timestamp_ms), segment.size):
                if header.max_timestamp_ms >= timestamp_ms and header.last_offset >= self._from_offset:
                    found = _read(segment, log, position, header, timestamp_ms, self._from_offset, find)
                    if found is not None:
                        return found
        return None

    @contextmanager
    def _opened(self, segment: Segment) -> Iterator[File]:
        """The segment's log file by a handle of its own, which can be read after the file is renamed or replaced."""
        with self._segments.names:
            self._check(segment)
            log = segment.open_log()
        try:
            yield log
        finally:
            log.close()

    def _check(self, segment: Segment) -> None:
        if not any(each is segment for each in self._segments.all()):
            raise _SegmentGone

    def _largest_timestamp_ms(self, segment: Segment) -> int:
        if segment.is_counted:
            return segment.max_timestamp_ms
        if segment.indexed_timestamp_ms is None:
            directory = segment.path.rpartition("/")[0]
            try:
                facts = segment_facts(self._files, directory, segment.base_offset, is_active=False)
            except StorageError:
                self._check(segment)
                raise
            self._check(segment)
            segment.indexed_timestamp_ms = facts.last_timestamp_ms
        return segment.indexed_timestamp_ms

    def _position_for(self, segment: Segment, log: File, timestamp_ms: int) -> int:
        """Where a batch begins before which nothing reaches `timestamp_ms`."""
        offsets, times = segment.loaded_indexes() or self._read_indexes(segment, log)
        return offsets.position_for(times.relative_offset_for(timestamp_ms))

    def _read_indexes(self, segment: Segment, log: File) -> tuple[OffsetIndex, TimeIndex]:
        try:
            offsets = OffsetIndex.decode(self._files.read_all(segment.file(INDEX_SUFFIX)), log_bytes=segment.size)
            times = TimeIndex.decode(self._files.read_all(segment.file(TIME_INDEX_SUFFIX)))
        except StorageError:  # it is not there, and the log's own thread will make it when it needs it
            offsets = times = None
        with self._segments.names:
            self._check(segment)  # else these were another segment's
        if offsets is None or times is None or not ends_at_a_batch(log, segment.base_offset, offsets):
            return OffsetIndex(), TimeIndex()
        return offsets, times


def _read(
    segment: Segment, log: File, position: int, header: BatchHeader, timestamp_ms: int, from_offset: int, find: FindTimestamp
) -> Found | None:
    try:
        _, stored = stored_section(log.read(position, header.size_bytes))
        found = find(Compressed(header.codec, memoryview(stored)), header, timestamp_ms, from_offset)
    except PeerError as error:
        raise StorageError(f"the batch at offset {header.base_offset} of {segment.path}{LOG_SUFFIX} cannot be read: {error}") from error
    if found is None and header.record_count and header.base_offset >= from_offset:
        # A client may claim a timestamp that none of the records has. To read on, perhaps through thousands of such batches, would take
        # minutes; from here on nothing is missed.
        return header.max_timestamp_ms, header.last_offset
    return found
