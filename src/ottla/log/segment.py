"""One segment of a partition's log: a `.log` file of whole batches with its two indexes, `.index` and `.timeindex`. As Kafka's LogSegment.

It finds, reads and counts batches. It does not check them (append.py), and begins no other segment (segments.py). Index entries stay in
memory until `write_indexes`; an index that is missing, wrong, or lacks the entries that a crash lost is rebuilt from the log.
"""

from collections.abc import Callable, Iterator
from struct import Struct
from typing import Final

from ottla.log.checkpoints import INDEX_SUFFIX, LOG_SUFFIX, SEGMENT_SUFFIXES, TIME_INDEX_SUFFIX, TRANSACTION_INDEX_SUFFIX
from ottla.log.file_system import Buffer, File, Files, LogFileChanged, LogFileDamaged
from ottla.log.index import OFFSET_ENTRY_BYTES, TIME_ENTRY_BYTES, OffsetIndex, TimeIndex
from ottla.log.log_reading import OpenSegment
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.records.batch import BATCH_LENGTH_MIN, HEADER_BYTES, LENGTH_OVERHEAD_BYTES, BatchHeader, crc_is_valid, read_header

_HEADERS_BYTES: Final = 16 * 1024
_SCAN_BYTES: Final = 1024 * 1024


def walk_batches(log: File, position: int, end: int, *, verify_crc: bool = False) -> Iterator[tuple[int, BatchHeader]]:
    """Position and header of each batch of a log file from `position` on; ends before the first that is not whole (and sound)."""
    window_bytes = _SCAN_BYTES if verify_crc else _HEADERS_BYTES
    window: Buffer = b""
    window_at = position
    while position + HEADER_BYTES <= end:
        if position + HEADER_BYTES > window_at + len(window):
            window, window_at = log.read(position, window_bytes), position
        try:
            header = read_header(window, position - window_at)
        except PeerError:
            return
        if position + header.size_bytes > end:
            return
        if verify_crc:
            if position + header.size_bytes > window_at + len(window):
                window, window_at = log.read(position, max(window_bytes, header.size_bytes)), position
            if not crc_is_valid(window, position - window_at, header.size_bytes):
                return
        yield position, header
        position += header.size_bytes


def ends_at_a_batch(log: File, base_offset: int, offsets: OffsetIndex) -> bool:
    """Whether the last index entry is that of a batch in the log: a cheap check of what a crash or another program damages first."""
    if not offsets:
        return True
    try:
        header = read_header(log.read(offsets.positions[-1], HEADER_BYTES))
    except PeerError:
        return False
    return header.last_offset - base_offset == offsets.relative_offsets[-1]


class SegmentIndexes:
    """`offsets`, `times`: None while they are not in memory. `path`, `file_suffix`: what stands before and behind `.index`."""

    __slots__ = ("_file_bytes", "_file_suffix", "_files", "_path", "_written_offsets", "_written_times", "offsets", "times")

    def __init__(self, files: Files, path: str, file_suffix: str) -> None:
        self._files = files
        self._path = path
        self._file_suffix = file_suffix
        self.offsets: OffsetIndex | None = None
        self.times: TimeIndex | None = None
        self._file_bytes: tuple[int, int] | None = None
        self._written_offsets = self._written_times = 0

    def _file(self, kind: str) -> str:
        return self._path + kind + self._file_suffix

    def clear(self) -> tuple[OffsetIndex, TimeIndex]:
        """New, empty indexes. The next `write` replaces what the files hold."""
        self.offsets, self.times = OffsetIndex(), TimeIndex()
        self.replace_files_later()
        return self.offsets, self.times

    def replace_files_later(self) -> None:
        """The next `write` replaces what the files hold, whatever it is."""
        self._file_bytes = None
        self._written_offsets = self._written_times = 0

    def drop(self) -> None:
        """Free the memory of indexes that are on the disk."""
        self.offsets = self.times = None

    def read(self, log_bytes: int) -> tuple[OffsetIndex, TimeIndex] | None:
        """The indexes of a log of `log_bytes` from their files; None when one is missing or damaged."""
        offsets = times = None
        if self._files.exists(self._file(INDEX_SUFFIX)):
            offsets = OffsetIndex.decode(self._files.read_all(self._file(INDEX_SUFFIX)), log_bytes=log_bytes)
        if self._files.exists(self._file(TIME_INDEX_SUFFIX)):
            times = TimeIndex.decode(self._files.read_all(self._file(TIME_INDEX_SUFFIX)))
        return None if offsets is None or times is None else (offsets, times)

    def use(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Take indexes that were read from the files."""
        self.offsets, self.times = offsets, times
        self._written_offsets, self._written_times = len(offsets), len(times)

    def write(self, offsets: OffsetIndex, times: TimeIndex) -> None:
        """Append to the files what they lack."""
        self._file_bytes = None
        if len(offsets) > self._written_offsets or not self._written_offsets:
            self._extend(INDEX_SUFFIX, self._written_offsets * OFFSET_ENTRY_BYTES, offsets.encode(self._written_offsets))
            self._written_offsets = len(offsets)
        if len(times) > self._written_times or not self._written_times:
            self._extend(TIME_INDEX_SUFFIX, self._written_times * TIME_ENTRY_BYTES, times.encode(self._written_times))
            self._written_times = len(times)

    def _extend(self, suffix: str, size: int, data: bytes) -> None:
        file = self._files.open(self._file(suffix))
        try:
            if file.size != size:
                file.truncate(size)  # what an earlier write left behind that failed
            file.append(data)
        finally:
            file.close()

    def replace(self, offsets: OffsetIndex, times: TimeIndex, *, sync: bool) -> None:
        """Replace the files by these indexes."""
        self._file_bytes = None
        self._files.replace(self._file(INDEX_SUFFIX), offsets.encode(), sync=sync)
        self._files.replace(self._file(TIME_INDEX_SUFFIX), times.encode(), sync=sync)
        self._written_offsets, self._written_times = len(offsets), len(times)

    def sync(self) -> None:
        """Make durable what `write` wrote; an empty file has nothing to lose."""
        if self._written_offsets:
            self._files.sync(self._file(INDEX_SUFFIX))
        if self._written_times:
            self._files.sync(self._file(TIME_INDEX_SUFFIX))

    def file_bytes(self) -> tuple[int, int] | None:
        """The sizes of the two files; None when one is missing."""
        if self._file_bytes is None:
            if not (self._files.exists(self._file(INDEX_SUFFIX)) and self._files.exists(self._file(TIME_INDEX_SUFFIX))):
                return None
            self._file_bytes = self._files.size(self._file(INDEX_SUFFIX)), self._files.size(self._file(TIME_INDEX_SUFFIX))
        return self._file_bytes


NO_TIMESTAMP: Final = -1
# Index entries hold offsets relative to the segment's base in 32 bits with a sign.
RELATIVE_OFFSET_MAX: Final = (1 << 31) - 1

# Base offset, length and last offset delta: all that finding a batch takes.
_WALK: Final = Struct(">qi11xi")
_LENGTH: Final = Struct(">8xi")
_WALK_BYTES: Final = 4096 + _WALK.size


class Segment:
    """The batches from `base_offset` on. `file_suffix` ends the names of a segment that is still being made (`.cleaned`).

    The indexes of a segment that is no longer written to are loaded when first needed."""

    __slots__ = (
        "_file_suffix",
        "_files",
        "_first_timestamp_ms",
        "_index_interval_bytes",
        "_indexed_position",
        "_indexes",
        "_log",
        "base_offset",
        "indexed_timestamp_ms",
        "is_counted",
        "made_ms",
        "max_timestamp_ms",
        "max_timestamp_offset",
        "path",
        "size",
    )

    def __init__(
        self, files: Files, directory: str, base_offset: int, *, index_interval_bytes: int, made_ms: int, file_suffix: str = ""
    ) -> None:
        self._files = files
        self._file_suffix = file_suffix
        self.path = f"{directory}/{base_offset:020d}"
        self._index_interval_bytes = index_interval_bytes
        self._log: File | None = None
        self._indexes = SegmentIndexes(files, self.path, file_suffix)
        self.base_offset = base_offset
        self.made_ms = made_ms
        self.size = files.size(self.file(LOG_SUFFIX)) if files.exists(self.file(LOG_SUFFIX)) else 0
        self.is_counted = False
        self.indexed_timestamp_ms: int | None = None
        """The largest timestamp of a full segment that is not counted, when another thread has looked it up (timestamp_lookup.py)."""
        self._forget_counts()

    def file(self, kind: str) -> str:
        """The path of one of the segment's files: `.log`, `.index`, ..., behind which `file_suffix` (`.cleaned`) stands."""
        return self.path + kind + self._file_suffix

    def _forget_counts(self) -> None:
        self._indexed_position = 0
        self._first_timestamp_ms: int | None = None
        self.max_timestamp_ms = NO_TIMESTAMP
        self.max_timestamp_offset = self.base_offset

    def _set_largest(self, timestamp_ms: int, relative_offset: int) -> None:
        self.max_timestamp_ms, self.max_timestamp_offset = timestamp_ms, self.base_offset + relative_offset

    # --- writing

    def create(self) -> None:
        """Make the three files of a new segment, the log last, since it is the log that makes a segment.

        Files that a lost segment of the same name left behind are replaced.
        """
        self._indexes.clear()
        if self._files.exists(self.file(TRANSACTION_INDEX_SUFFIX)):
            self._files.remove(self.file(TRANSACTION_INDEX_SUFFIX))
        for suffix in (INDEX_SUFFIX, TIME_INDEX_SUFFIX, LOG_SUFFIX):
            file = self._files.open(self.file(suffix))
            if file.size:
                file.truncate(0)
            if suffix is LOG_SUFFIX:
                self._log = file
            else:
                file.close()
        self.size = 0
        self.is_counted = True
        self._forget_counts()

    def log(self) -> File:
        if self._log is None:
            self._log = self.open_log()
        return self._log

    def open_log(self) -> File:
        """The log file by a new handle, for the thread that asks. Raises LogFileChanged where it is not what was written."""
        path, written = self.file(LOG_SUFFIX), self.size
        if written and self._files.identity(path) is None:
            raise LogFileChanged(path, None, written)
        file = self._files.open(path)
        if file.size < written:
            file.close()
            raise LogFileChanged(path, file.size, written)
        return file

    def append(self, data: Buffer) -> None:
        """Write bytes at the end and nothing else; `note` counts the batches in them. After a StorageError the file is as it was."""
        log = self._log or self.log()
        assert log.size == self.size, "the log file and its count of bytes went apart"
        log.append(data)

    def note(self, last_offset: int, max_timestamp_ms: int, size_bytes: int) -> None:
        """Count one batch that now lies at the end, and index it when an entry is due (every index.interval.bytes)."""
        position = self.size
        if max_timestamp_ms > self.max_timestamp_ms:
            self.max_timestamp_ms = max_timestamp_ms
            self.max_timestamp_offset = last_offset
        if position - self._indexed_position > self._index_interval_bytes:
            self._indexed_position = position
            self.offsets().append(last_offset - self.base_offset, position)
            self.times().append_if_later(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)
        self.size = position + size_bytes

    def write_indexes(self, *, final: bool) -> None:
        """Append to the index files what they lack. `final`: the segment ends here, so its largest timestamp gets an entry too."""
        offsets, times = self.offsets(), self.times()
        if final:
            self._add_final_time()
        self._indexes.write(offsets, times)

    def _add_final_time(self) -> None:
        self.times().append_if_later(self.max_timestamp_ms, self.max_timestamp_offset - self.base_offset)

    def truncate(self, size: int) -> None:
        """Cut the log file. The indexes must be rebuilt after it."""
        self.log().truncate(size)
        self.size = size

    def indexes_are_full(self, segment_index_bytes: int) -> bool:
        """Whether an index file has no room for one more entry (the time index keeps one for its final entry, as in Kafka)."""
        offsets, times = self.offsets(), self.times()
        return len(offsets) >= segment_index_bytes // OFFSET_ENTRY_BYTES or len(times) >= segment_index_bytes // TIME_ENTRY_BYTES - 1

    def sync(self) -> None:
        """Make the log file durable."""
        self.log().sync()

    def sync_all(self) -> None:
        """Make log and indexes durable without the log's own handle, so that another thread may do it."""
        self._files.sync(self.file(LOG_SUFFIX))
        self.sync_indexes()
        if self._files.exists(self.file(TRANSACTION_INDEX_SUFFIX)):
            self._files.sync(self.file(TRANSACTION_INDEX_SUFFIX))

    def sync_indexes(self) -> None:
        """Make durable what `write_indexes` wrote; an empty file has nothing to lose."""
        self._indexes.sync()

    def close(self) -> None:
        if self._log is not None:
            self._log.close()
            self._log = None

    def remove(self) -> None:
        """Delete the files."""
        self.close()
        for suffix in SEGMENT_SUFFIXES:
            if self._files.exists(self.file(suffix)):
                self._files.remove(self.file(suffix))

    # --- indexes

    def offsets(self) -> OffsetIndex:
        offsets = self._indexes.offsets
        if offsets is None:
            self.load_indexes()
            offsets = self._indexes.offsets
            assert offsets is not None
        return offsets

    def times(self) -> TimeIndex:
        times = self._indexes.times
        if times is None:
            self.load_indexes()
            times = self._indexes.times
            assert times is not None
        return times

    def loaded_indexes(self) -> tuple[OffsetIndex, TimeIndex] | None:
        """The indexes, if they are in memory. Any thread; they may grow meanwhile."""
        offsets, times = self._indexes.offsets, self._indexes.times
        return None if offsets is None or times is None else (offsets, times)

    def drop_indexes(self) -> None:
        """Free the memory of indexes that are on the disk."""
        self._indexes.drop()

    def load_indexes(self) -> bool:
        """Read the index files; False when one was missing or wrong, and both were rebuilt from the log."""
        found = self._indexes.read(self.size)
        if found is None or not ends_at_a_batch(self.log(), self.base_offset, found[0]):
            self._rebuild_indexes()
            return False
        offsets, times = found
        self._indexes.use(offsets, times)
        self._indexed_position = offsets.positions[-1] if offsets else 0
        if times and times.timestamps_ms[-1] > self.max_timestamp_ms:
            self._set_largest(times.timestamps_ms[-1], times.relative_offsets[-1])
        self.is_counted = True
        return True

    def _rebuild_indexes(self) -> None:
        """From the log. Recovery decides about a damaged tail; here the log's bytes stay as they are."""
        size = self.size
        self.recount(verify_crc=False)
        self.size = size
        self.rewrite_indexes(sync=True)

    def recount(self, *, verify_crc: bool, may_have_gaps: bool = True, on_batch: Callable[[int, BatchHeader], None] | None = None) -> int:
        """Walk the log from its start and rebuild counts and indexes, in memory. `size` becomes the end of the last sound batch.

        Returns the offset after that batch. `on_batch` is called with each batch's position and header. Base offsets lie outside the
        checksum: they must rise, and follow each other without a gap unless the log may have been compacted.
        """
        end, next_offset = self.size, self.base_offset
        self.size = 0
        self.is_counted = False
        self._indexes.clear()
        self._forget_counts()
        for position, header in self.batches(end=end, verify_crc=verify_crc):
            is_next = header.base_offset == next_offset or (may_have_gaps and header.base_offset > next_offset)
            if not is_next or header.last_offset - self.base_offset > RELATIVE_OFFSET_MAX:
                break
            self.note(header.last_offset, header.max_timestamp_ms, header.size_bytes)
            next_offset = header.next_offset
            if on_batch is not None:
                on_batch(position, header)
        self.is_counted = True
        return next_offset

    def rewrite_indexes(self, *, sync: bool) -> None:
        """Replace the index files by what is in memory, with the final time entry. `sync`: a snapshot covers this segment already."""
        offsets, times = self.offsets(), self.times()
        self._add_final_time()
        self._indexes.replace(offsets, times, sync=sync)

    def replace_index_files_later(self) -> None:
        """The next `write_indexes` replaces the index files, whatever they hold, by what is in memory."""
        self._indexes.replace_files_later()

    # --- reading

    def batches(self, position: int = 0, *, end: int | None = None, verify_crc: bool = False) -> Iterator[tuple[int, BatchHeader]]:
        """Position and header of each batch from the one at `position` on; ends before the first that is not whole (and sound)."""
        return walk_batches(self.log(), position, self.size if end is None else end, verify_crc=verify_crc)

    def opened_again(self) -> OpenSegment:
        """The log file by a handle of its own, for a reader on the thread that asks."""
        return OpenSegment(self.open_log(), self.file(LOG_SUFFIX), self.base_offset, self.size)

    def read_batch(self, position: int, header: BatchHeader) -> Buffer:
        """All bytes of a batch found by `batches`."""
        return self.log().read(position, header.size_bytes)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, wait: bool = True, end_offset: int | None = None) -> Buffer | None:
        """Whole batches from the one that holds `offset` (or the next) on, none from `end_offset` on; None when the segment ends before it.

        Unless `wait`: ColdRead when they are not in memory.
        """
        found = self._locate(offset, wait)
        if found is None:
            return None
        position, first_bytes, window, at = found
        limit = position + max_bytes
        if end_offset is not None:
            ends = self.locate(end_offset, wait=wait)
            limit = limit if ends is None else min(limit, ends[0])
            at_least_one = at_least_one and (ends is None or position < ends[0])
        end = self._end_of_range(position, first_bytes, limit, wait=wait)
        if end == position:
            if not at_least_one:
                return b""
            end = position + first_bytes
        length = end - position
        if at + length <= len(window):  # what was read to find it holds all of it, as at the end of a log
            return window[at : at + length]
        return self._read(position, length, wait)

    def _read(self, position: int, length: int, wait: bool) -> bytes | bytearray:
        """What was written there, all of it but for what lies behind the segment's end."""
        data = self.log().read(position, length, wait=wait)
        if len(data) < min(length, self.size - position):
            raise LogFileChanged(self.file(LOG_SUFFIX), position + len(data), self.size)
        return data

    def locate(self, offset: int, *, wait: bool = True) -> tuple[int, int] | None:
        """Position and size of the first batch that ends at or after `offset`."""
        found = self._locate(offset, wait)
        return None if found is None else found[:2]

    def _locate(self, offset: int, wait: bool) -> tuple[int, int, bytes | bytearray, int] | None:
        """As `locate`, with the bytes that were read to find it, and where in them it begins."""
        relative_offset, position = self.offsets().entry_for(offset - self.base_offset)
        is_entry, begin = relative_offset >= 0, position
        while position < self.size:
            window = self._read(position, _WALK_BYTES, wait)
            at, last = 0, len(window) - _WALK.size
            if last < 0:
                raise self.damaged(position)
            if is_entry:
                base_offset, _, last_delta = _WALK.unpack_from(window)
                if base_offset + last_delta != self.base_offset + relative_offset:
                    self._rebuild_indexes()  # there is no such batch as the entry says
                    return self._locate(offset, wait)
                is_entry = False
            while at <= last:
                base_offset, length, last_delta = _WALK.unpack_from(window, at)
                if length < BATCH_LENGTH_MIN:
                    raise self.damaged(position + at)
                if base_offset + last_delta >= offset:
                    return position + at, length + LENGTH_OVERHEAD_BYTES, window, at
                begin = position + at
                at += length + LENGTH_OVERHEAD_BYTES
            position += at
        if position > self.size:
            raise self.damaged(begin)  # a length that leads out of the file: what lies behind it cannot be found
        return None

    def _end_of_range(self, position: int, first_bytes: int, limit: int, *, wait: bool) -> int:
        """The last known batch bound at or before `limit`; `position` itself when not even the first batch fits."""
        if limit >= self.size:
            return self.size
        if position + first_bytes > limit:
            return position
        end = self.offsets().batch_start_at_or_before(limit)
        if end >= position + first_bytes:
            return end
        # No index entry follows within the range, so little lies in it: step over what fits.
        end = position + first_bytes
        window = self.log().read(end, min(limit - end, _WALK_BYTES), wait=wait)
        at = 0
        while at + LENGTH_OVERHEAD_BYTES <= len(window):
            (length,) = _LENGTH.unpack_from(window, at)
            if length < BATCH_LENGTH_MIN or end + at + length + LENGTH_OVERHEAD_BYTES > limit:
                break
            at += length + LENGTH_OVERHEAD_BYTES
        return end + at

    def damaged(self, position: int) -> StorageError:
        """No batch begins at this byte of the log."""
        return LogFileDamaged(self.file(LOG_SUFFIX), position)

    # --- what it is

    def index_bytes(self) -> tuple[int, int]:
        """What the two index files hold."""
        found = self._indexes.file_bytes()
        if found is None:
            self._rebuild_indexes()
            found = self._indexes.file_bytes()
            assert found is not None, "they have just been written"
        return found

    def first_timestamp_ms(self) -> int | None:
        """The largest timestamp of the first batch, from which the age of the segment counts; None without a batch."""
        if self._first_timestamp_ms is None:
            for _, header in self.batches():
                self._first_timestamp_ms = header.max_timestamp_ms
                break
        return self._first_timestamp_ms

    def largest_timestamp(self) -> tuple[int, int]:
        """The largest timestamp in the segment (-1: none) and the last offset of the batch that reached it first."""
        if not self.is_counted:
            self.load_indexes()
        return self.max_timestamp_ms, self.max_timestamp_offset
