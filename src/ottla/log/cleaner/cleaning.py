"""One cleaning of one log, on any thread: group segments, index the dirty keys, rewrite what is kept, swap the segments in.

Neighbouring segments become one, so that segments do not get ever smaller. Which records of ordinary batches are kept, the backend decides;
here it is decided what becomes of the others: aborted data is dropped, markers are kept until the data of their transaction is gone, and
the last batch of each live producer and of the cleaned range is kept, empty if no record of it is. That takes one pass over the log, batch
by batch in order.

It changes no file of the log: it makes `.cleaned` files, makes them durable (`.swap`), and has the log's owner put them in place. Its
memory: the offset map, a buffer of `io_buffer_bytes` (or the largest batch, if that is larger) and what the backend makes of it. Source:
Kafka's `Cleaner`, its `groupSegmentsBySize` and `cleanInto`, and `CleanedTransactionMetadata`.
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from heapq import heapify, heappop
from itertools import count
from typing import Final, Generic, Protocol, TypeVar

from ottla.log.checkpoints import INDEX_SUFFIX, LOG_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.log.cleaner.backend import BatchRetention, Buffer, Chunk, CleaningBackend, Filtered, OffsetMap, Tombstones
from ottla.log.file_system import Files
from ottla.log.index import AbortedTransaction, OffsetIndex, encode_transactions
from ottla.log.log_reading import LogSnapshot, SegmentView
from ottla.log.segment import RELATIVE_OFFSET_MAX, Segment
from ottla.log.segments import CLEANED_SUFFIX, HalfSwapped, make_ready, remove_cleaned
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.records.batch import DECOMPRESSED_BYTES_MAX, HEADER_BYTES, BatchHeader, read_header, read_raw
from ottla.protocol.records.compression import decompress
from ottla.protocol.records.control import ControlType, control_type


class SizedSegment(Protocol):
    """A segment that takes no more batches; the next one begins at `next_base_offset`."""

    @property
    def base_offset(self) -> int: ...
    @property
    def next_base_offset(self) -> int: ...
    @property
    def size_bytes(self) -> int: ...
    @property
    def offset_index_bytes(self) -> int: ...
    @property
    def time_index_bytes(self) -> int: ...


SegmentT = TypeVar("SegmentT", bound=SizedSegment)


def group_segments(segments: Iterable[SegmentT], *, segment_bytes: int, segment_index_bytes: int) -> list[list[SegmentT]]:
    """The segments in order, each in one group: as many neighbours together as fit one segment in bytes, index bytes and offsets.

    A segment that alone is too large stands alone. An empty one always fits in offsets.
    """
    found: list[list[SegmentT]] = []
    log_bytes = offset_index_bytes = time_index_bytes = 0
    for segment in segments:
        log_bytes += segment.size_bytes
        offset_index_bytes += segment.offset_index_bytes
        time_index_bytes += segment.time_index_bytes
        if (
            found
            and log_bytes <= segment_bytes
            and max(offset_index_bytes, time_index_bytes) <= segment_index_bytes
            and (segment.size_bytes == 0 or segment.next_base_offset - 1 - found[-1][0].base_offset <= RELATIVE_OFFSET_MAX)
        ):
            found[-1].append(segment)
        else:
            found.append([segment])
            log_bytes, offset_index_bytes, time_index_bytes = segment.size_bytes, segment.offset_index_bytes, segment.time_index_bytes
    return found


class Aborted(Protocol):
    """An aborted transaction: its first record's offset and its marker's."""

    @property
    def producer_id(self) -> int: ...
    @property
    def first_offset(self) -> int: ...
    @property
    def last_offset(self) -> int: ...


class ProducerEnd(Protocol):
    """Where a live producer stands: the offset of its last record, -1 when only a marker of it is known."""

    @property
    def epoch(self) -> int: ...
    @property
    def last_offset(self) -> int: ...


AbortedT = TypeVar("AbortedT", bound=Aborted)


@dataclass(slots=True)
class _Open(Generic[AbortedT]):
    """An aborted transaction whose marker is still to come. `has_data`: a batch of it lies in the log."""

    transaction: AbortedT
    has_data: bool = False


class Transactions(Generic[AbortedT]):
    """Which batches belong to aborted transactions, and which markers have outlived their data.

    aborted: those whose marker lies in or behind the range that is read, in any order.
    """

    def __init__(self, aborted: Iterable[AbortedT]) -> None:
        number = count()
        self._ahead = [(transaction.first_offset, next(number), transaction) for transaction in aborted]
        heapify(self._ahead)
        self._aborted: dict[int, _Open[AbortedT]] = {}
        self._committed: set[int] = set()
        self._kept: list[AbortedT] = []

    def take_kept(self) -> list[AbortedT]:
        """The aborted transactions whose marker was met since the last call, and of which data was still there: they stay in the index."""
        kept, self._kept = self._kept, []
        return kept

    def is_aborted(self, header: BatchHeader) -> bool:
        """Meet a transactional batch of data."""
        self._begin_up_to(header.last_offset)
        found = self._aborted.get(header.producer_id)
        if found is None:
            self._committed.add(header.producer_id)
            return False
        found.has_data = True
        return True

    def outlived(self, header: BatchHeader, kind: int | None) -> bool:
        """Meet a control batch (None: one without a record): whether no data of its transaction was met before it."""
        self._begin_up_to(header.last_offset)
        if kind is None:
            return True
        if kind == ControlType.ABORT:
            found = self._aborted.pop(header.producer_id, None)
            if found is None or not found.has_data:
                return True
            self._kept.append(found.transaction)
            return False
        if kind == ControlType.COMMIT and header.producer_id not in self._committed:
            return True
        if kind == ControlType.COMMIT:
            self._committed.remove(header.producer_id)
        return False

    def _begin_up_to(self, offset: int) -> None:
        while self._ahead and self._ahead[0][0] <= offset:
            _, _, transaction = heappop(self._ahead)
            self._aborted.setdefault(transaction.producer_id, _Open(transaction))


def skipped(transactions: Transactions[AbortedT], chunk: Chunk, buffer: Buffer) -> set[int]:
    """Positions of the batches that the index pass does not read. Raises PeerError on a damaged control batch."""
    positions = set()
    for position in chunk.special:
        header = read_header(buffer, position)
        if header.is_control:
            transactions.outlived(header, _type_of(buffer, position, header))
            positions.add(position)
        elif header.is_transactional and transactions.is_aborted(header):
            positions.add(position)
    return positions


class BatchRetentions(Generic[AbortedT]):
    """What a filter pass does with the batches that are not ordinary.

    producers: the live ones, by id. end_offset: where the range ends that is being cleaned (not cleaned from there on).
    marked_offsets: what the backend's scan is to mark.
    """

    def __init__(self, transactions: Transactions[AbortedT], producers: Mapping[int, ProducerEnd], *, end_offset: int, now_ms: int) -> None:
        self._transactions = transactions
        self._producers = producers
        self._end_offset = end_offset
        self._now_ms = now_ms
        last_offsets = {producer.last_offset for producer in producers.values() if producer.last_offset >= 0}
        self.marked_offsets = array("q", sorted(last_offsets | {max(0, end_offset - 1)}))

    def of(self, chunk: Chunk, buffer: Buffer) -> dict[int, BatchRetention]:
        """The retention of each special batch of a chunk, by position. Raises PeerError on a damaged control batch."""
        found = {}
        for position in chunk.special:
            header = read_header(buffer, position)
            is_last = header.next_offset == self._end_offset or self._is_last_of_producer(header)
            if header.is_control:
                found[position] = self._of_marker(header, _type_of(buffer, position, header), is_last=is_last)
            elif header.is_transactional and self._transactions.is_aborted(header):
                found[position] = BatchRetention.EMPTY if is_last else BatchRetention.DROP
            else:
                found[position] = BatchRetention.FILTER_KEEP if is_last else BatchRetention.FILTER
        return found

    def _of_marker(self, header: BatchHeader, kind: int | None, *, is_last: bool) -> BatchRetention:
        outlived = self._transactions.outlived(header, kind)
        horizon_ms = header.delete_horizon_ms
        if kind is None or (outlived and horizon_ms is not None and horizon_ms <= self._now_ms):
            return BatchRetention.EMPTY if is_last else BatchRetention.DROP
        return BatchRetention.KEEP_UNTIL_HORIZON if outlived and horizon_ms is None else BatchRetention.KEEP

    def _is_last_of_producer(self, header: BatchHeader) -> bool:
        """It holds the last sequence number of a live producer, or, when nothing else of it is known, its epoch."""
        producer = self._producers.get(header.producer_id)
        if producer is None or header.producer_id < 0:
            return False
        if producer.last_offset >= 0:
            return header.last_offset == producer.last_offset
        return header.is_control and header.producer_epoch == producer.epoch


def _type_of(buffer: Buffer, position: int, header: BatchHeader) -> int | None:
    """The type in the key of the batch's one record; None without a record."""
    section = memoryview(buffer)[position + HEADER_BYTES : position + header.size_bytes]
    for record in read_raw(decompress(header.codec, section, output_bytes_max=DECOMPRESSED_BYTES_MAX), header):
        return control_type(record.key)
    return None


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
