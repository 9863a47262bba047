"""One cleaning of one log, on any thread: index the dirty keys, rewrite the segments without outdated records, swap them in.

The decisions are made in `core/cleaning`, a backend reads and writes the bytes; this module handles the files and the order of steps. It
changes no file of the log: it makes `.cleaned` files, makes them durable (`.swap`), and has the log's owner put them in place. Its memory:
the offset map, a buffer of `io_buffer_bytes` (or the largest batch, if that is larger) and what the backend makes of it. Source: Kafka's
`Cleaner`.
"""

from array import array
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Final

from ottla.core.cleaning.backend import Buffer, Chunk, CleaningBackend, Filtered, Tombstones
from ottla.core.cleaning.batch_retention import BatchRetentions, Transactions, skipped
from ottla.core.cleaning.grouping import group_segments
from ottla.core.cleaning.offset_map import OffsetMap
from ottla.core.errors import PeerError, StorageError
from ottla.core.records.batch import HEADER_BYTES, read_header
from ottla.storage.file_system import Files
from ottla.storage.log.file_names import INDEX_SUFFIX, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.storage.log.index import OffsetIndex
from ottla.storage.log.log_snapshot import LogSnapshot, SegmentView
from ottla.storage.log.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.storage.log.segment_swap import CLEANED_SUFFIX, HalfSwapped, make_ready, remove_cleaned
from ottla.storage.log.transaction_index import AbortedTransaction, encode_transactions

IO_BUFFER_BYTES: Final = 256 * 1024
_NOTHING_MARKED: Final = array("q")


@dataclass(slots=True)
class Cleaned:
    """What a cleaning did. `end_offset`: up to here the log is clean, its new first dirty offset.

    is_complete: False when it was stopped, or segments went away meanwhile; what was swapped in until then is in place all the same.
    passes: more than one when the dirty keys exceeded the offset map. map_utilization: the largest share of its slots in use, 0 to 1.
    indexed_bytes: read to fill the offset map. read_bytes, written_bytes: by the second pass, which copies.
    read_records, kept_records: read by the second pass, and kept in the new segments (also those of batches that were not read).
    """

    end_offset: int
    is_complete: bool = True
    passes: int = 0
    map_utilization: float = 0.0
    indexed_bytes: int = 0
    read_bytes: int = 0
    read_records: int = 0
    written_bytes: int = 0
    kept_records: int = 0


def clean(
    files: Files,
    view: LogSnapshot,
    *,
    first_dirty_offset: int,
    first_uncleanable_offset: int,
    backend: CleaningBackend,
    offset_map: OffsetMap,
    now_ms: int,
    swap: Callable[[int, Sequence[int]], bool],
    throttle: Callable[[int], None] = lambda _: None,
    is_stopped: Callable[[], bool] = lambda: False,
    io_buffer_bytes: int = IO_BUFFER_BYTES,
) -> Cleaned:
    """Clean `view`'s log up to `first_uncleanable_offset`, in as many passes as the offset map needs.

    files: the log's own, or another `OsFiles` over the same root: a thread opens and closes descriptors of its own. The range comes from
    `candidates` and this same view.
    offset_map: for this cleaning alone; what it holds is forgotten.
    swap(base_offset, replaced): has the owner of the log put the finished `.swap` files of `base_offset` in place of the segments
    `replaced` (`PartitionLog.swap_segments`); False when those are not there any more, and nothing was done.
    throttle(size_bytes): called after so much was read or written, may wait.
    Raises StorageError when the log is damaged or a file cannot be read or written; unfinished files are removed, as far as they can be.
    """
    cleaning = _Cleaning(
        files=files,
        view=view,
        end_offset=first_uncleanable_offset,
        backend=backend,
        offset_map=offset_map,
        tombstones=Tombstones(now_ms, view.settings.delete_retention_ms),
        swap=swap,
        throttle=throttle,
        is_stopped=is_stopped,
        io_buffer_bytes=io_buffer_bytes,
        segments=list(view.segments),
        aborted=list(view.aborted),
        done=Cleaned(first_dirty_offset),
    )
    try:
        while cleaning.done.end_offset < first_uncleanable_offset:
            cleaning.run_pass()
    except _Stopped:
        cleaning.done.is_complete = False
    return cleaning.done


def first_timestamp_ms(files: Files, segment: SegmentView) -> int | None:
    """The largest timestamp of a segment's first batch, from which its age counts; None without a sound one."""
    try:
        return read_header(files.read_range(segment.path + LOG_SUFFIX, 0, HEADER_BYTES)).max_timestamp_ms
    except PeerError:
        return None


class _Stopped(Exception):
    """The cleaning is to stop, or its log has changed."""


@dataclass(slots=True, kw_only=True)
class _Cleaning:
    """The log while it is cleaned: `segments` and `aborted` are as the swaps so far left them."""

    files: Files
    view: LogSnapshot
    end_offset: int
    backend: CleaningBackend
    offset_map: OffsetMap
    tombstones: Tombstones
    swap: Callable[[int, Sequence[int]], bool]
    throttle: Callable[[int], None]
    is_stopped: Callable[[], bool]
    io_buffer_bytes: int
    segments: list[SegmentView]
    aborted: list[AbortedTransaction]
    done: Cleaned

    def run_pass(self) -> None:
        """One pass: fill the offset map from the first dirty offset on, then clean every segment that it reaches."""
        self._index(self.done.end_offset)
        self.done.map_utilization = max(self.done.map_utilization, self.offset_map.utilization)
        self.done.passes += 1
        end = self.offset_map.latest_offset + 1
        assert end > self.done.end_offset, "a pass takes one key at least"
        reached = [segment for segment in self.segments if segment.base_offset < end]
        transactions = self._transactions(reached[0].base_offset)
        retentions = BatchRetentions(transactions, self.view.producers, end_offset=self.end_offset, now_ms=self.tombstones.now_ms)
        settings = self.view.settings
        for group in group_segments(reached, segment_bytes=settings.segment_bytes, segment_index_bytes=settings.segment_index_bytes):
            self._clean_group(group, retentions, transactions)
        self.done.end_offset = end

    def _transactions(self, from_offset: int) -> Transactions[AbortedTransaction]:
        return Transactions(transaction for transaction in self.aborted if transaction.last_offset >= from_offset)

    # --- the index pass

    def _index(self, first_dirty: int) -> None:
        self.offset_map.clear()
        transactions = self._transactions(first_dirty)
        for segment in self.segments:
            if segment.next_base_offset <= first_dirty or segment.base_offset >= self.end_offset:
                continue
            with self._unless_gone([segment]):
                if self._index_segment(segment, first_dirty, transactions):
                    return
            # Behind the last batch there may be offsets that an earlier cleaning left without one.
            self.offset_map.latest_offset = segment.next_base_offset - 1

    def _index_segment(self, segment: SegmentView, first_dirty: int, transactions: Transactions[AbortedTransaction]) -> bool:
        """Whether the map became full before the segment's end."""
        for buffer, chunk in self._chunks(segment, _NOTHING_MARKED, self._position_of(segment, first_dirty)):
            try:
                skips = skipped(transactions, chunk, buffer)
                indexed = chunk.index(self.offset_map, skipped=skips, from_offset=first_dirty)
            except PeerError as error:
                raise _damaged(segment, error) from error
            self.done.indexed_bytes += chunk.size_bytes
            if indexed.is_full:
                return True
        return False

    def _position_of(self, segment: SegmentView, offset: int) -> int:
        """Where a batch begins at or before `offset`, as near as the index knows; a damaged index knows nothing."""
        if offset <= segment.base_offset or not self.files.exists(segment.path + INDEX_SUFFIX):
            return 0
        index = OffsetIndex.decode(self.files.read_all(segment.path + INDEX_SUFFIX), log_bytes=segment.size_bytes)
        return 0 if index is None else index.position_for(offset - segment.base_offset)

    # --- the filter pass

    def _clean_group(
        self, group: list[SegmentView], retentions: BatchRetentions[AbortedTransaction], transactions: Transactions[AbortedTransaction]
    ) -> None:
        """Write one segment for the group, make it durable, and have it swapped in."""
        made = Segment(
            self.files,
            self.view.directory,
            group[0].base_offset,
            index_interval_bytes=self.view.settings.index_interval_bytes,
            made_ms=self.tombstones.now_ms,
            file_suffix=CLEANED_SUFFIX,
        )
        try:
            with self._unless_gone(group):
                made.create()
                for segment in group:
                    self._clean_into(made, segment, retentions)
                kept = transactions.take_kept()
                cleaned = self._finish(made, kept, group[-1].next_base_offset)
                make_ready(self.files, made.path)
        except BaseException:
            # What cannot be removed now is removed when the log is opened next; the first error is the one to report.
            with suppress(StorageError):
                remove_cleaned(self.files, made.path)
            raise
        finally:
            made.close()
        if not self._swapped(made.path, group):
            raise _Stopped
        at = self.segments.index(group[0])
        self.segments[at : at + len(group)] = [cleaned]
        ends = range(cleaned.base_offset, cleaned.next_base_offset)
        self.aborted = [transaction for transaction in self.aborted if transaction.last_offset not in ends] + kept

    def _swapped(self, path: str, group: Sequence[SegmentView]) -> bool:
        """Whether the finished files are in place. If not they are removed: the next start would take them for finished."""
        is_swapped = False
        try:
            is_swapped = self.swap(group[0].base_offset, [segment.base_offset for segment in group])
        except HalfSwapped:
            is_swapped = True  # opening the log again ends the swap
            raise
        finally:
            if not is_swapped:
                remove_cleaned(self.files, path)
        return is_swapped

    def _clean_into(self, made: Segment, segment: SegmentView, retentions: BatchRetentions[AbortedTransaction]) -> None:
        last_offset = segment.base_offset - 1
        for buffer, chunk in self._chunks(segment, retentions.marked_offsets, 0):
            try:
                filtered = chunk.filter(self.offset_map, retentions.of(chunk, buffer), self.tombstones)
            except PeerError as error:
                raise _damaged(segment, error) from error
            self.done.read_bytes += chunk.size_bytes
            self.done.read_records += filtered.records_read
            self.done.kept_records += filtered.records_kept
            last_offset = self._write(made, segment, filtered, last_offset)

    def _write(self, made: Segment, segment: SegmentView, filtered: Filtered, last_offset: int) -> int:
        """Append what is kept; its last offset."""
        if not filtered.sizes_bytes:
            return last_offset
        made.append(filtered.data)
        limit = made.base_offset + RELATIVE_OFFSET_MAX
        for offset, max_timestamp_ms, size_bytes in zip(
            filtered.last_offsets, filtered.max_timestamps_ms, filtered.sizes_bytes, strict=True
        ):
            # Offsets lie outside the checksums: what is damaged there must not get into an index.
            if not last_offset < offset <= limit:
                raise _damaged(segment, f"offset {offset} follows offset {last_offset}")
            made.note(offset, max_timestamp_ms, size_bytes)
            last_offset = offset
        self.done.written_bytes += len(filtered.data)
        self.throttle(len(filtered.data))
        return last_offset

    def _finish(self, made: Segment, kept: list[AbortedTransaction], next_base_offset: int) -> SegmentView:
        """Write what is still in memory, and make it all durable."""
        made.write_indexes(final=True)
        if kept:
            file = self.files.open(made.file(TRANSACTION_INDEX_SUFFIX))
            try:
                file.append(encode_transactions(kept))
            finally:
                file.close()
        made.sync_all()
        latest_ms, _ = made.largest_timestamp()
        return SegmentView(made.base_offset, next_base_offset, made.size, made.path, latest_ms, *made.index_bytes())

    # --- reading

    @contextmanager
    def _unless_gone(self, segments: list[SegmentView]) -> Iterator[None]:
        """A file that cannot be read because its segment was deleted meanwhile is no damage: the cleaning stops."""
        try:
            yield
        except StorageError as error:
            if all(self.files.exists(segment.path + LOG_SUFFIX) for segment in segments):
                raise
            raise _Stopped from error

    def _chunks(self, segment: SegmentView, marked_offsets: "array[int]", position: int) -> Iterator[tuple[Buffer, Chunk]]:
        """The segment from `position` on, in pieces of whole batches."""
        path = segment.path + LOG_SUFFIX
        wanted = self.io_buffer_bytes
        while position < segment.size_bytes:
            if self.is_stopped():
                raise _Stopped
            asked = min(wanted, segment.size_bytes - position)
            buffer = self.files.read_range(path, position, asked)
            if len(buffer) < asked:
                raise _damaged(segment, f"it ends at byte {position + len(buffer)}, before its {segment.size_bytes} bytes")
            try:
                chunk = self.backend.scan(buffer, marked_offsets)
            except PeerError as error:
                raise _damaged(segment, error) from error
            if chunk.size_bytes:
                self.throttle(chunk.size_bytes)
                yield buffer, chunk
                position += chunk.size_bytes
                wanted = self.io_buffer_bytes
            else:
                wanted = self._larger(segment, position, len(buffer), chunk.next_batch_bytes)

    def _larger(self, segment: SegmentView, position: int, read_bytes: int, batch_bytes: int) -> int:
        """How much to read where not even one whole batch was read."""
        wanted = max(batch_bytes, HEADER_BYTES)
        if wanted <= read_bytes or position + wanted > segment.size_bytes:
            raise _damaged(segment, f"no whole batch begins at byte {position}")
        return wanted


def _damaged(segment: SegmentView, what: object) -> StorageError:
    return StorageError(f"{segment.path}{LOG_SUFFIX} cannot be cleaned: it is damaged: {what}")
