"""Cleaned segments take the place of those that they were made from, in one log. As Kafka's `UnifiedLog.replaceSegments`."""

from collections.abc import Sequence

from ottla.storage.file_system import Files
from ottla.storage.log.aborted_transactions import AbortedTransactions
from ottla.storage.log.durability import Durability
from ottla.storage.log.segment import Segment
from ottla.storage.log.segment_swap import HalfSwapped, is_ready, remove_cleaned, swap_in
from ottla.storage.log.segments import Segments


class SegmentReplacement:
    """Of one log; it is asked by the thread that owns the log."""

    __slots__ = ("_aborted", "_directory", "_durability", "_files", "_segments")

    def __init__(self, files: Files, directory: str, *, segments: Segments, durability: Durability, aborted: AbortedTransactions) -> None:
        self._files = files
        self._directory = directory
        self._segments = segments
        self._durability = durability
        self._aborted = aborted

    def replace(
        self, base_offset: int, replaced: Sequence[int], *, log_end_offset: int, index_interval_bytes: int
    ) -> tuple[str, ...] | None:
        """Put the finished `.swap` files of `base_offset` where the segments with the base offsets `replaced` are, itself the first.

        Returns the new paths of the old files (`.deleted`), which may be removed once the directory has been synced. None, and the `.swap`
        files are removed, when one of the segments is no longer in the log. Raises HalfSwapped; the log takes no more records then.
        """
        assert replaced[0] == base_offset, "a cleaned segment begins where the first one that it replaces begins"
        segments = self._segments
        with segments.names:
            path = f"{self._directory}/{base_offset:020d}"
            if not (segments.holds(replaced) and is_ready(self._files, path)):
                remove_cleaned(self._files, path)
                return None
            old = segments.neighbours(replaced)
            try:
                deleted = swap_in(self._files, path, old)
            except HalfSwapped as error:
                self._durability.broken = str(error)
                raise
            segment = Segment(self._files, self._directory, base_offset, index_interval_bytes=index_interval_bytes, made_ms=old[-1].made_ms)
            segments.replace(replaced, segment)
            self._aborted.reload(self._files, segment, segments.end_of(base_offset, log_end_offset))
            return deleted
