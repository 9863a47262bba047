"""The segments of one log: which holds an offset or a time, reading, rolling, replacing, and retention. As Kafka's UnifiedLog.

Reading: besides the last segment, at most one is held open with its indexes in memory, since readers of old data go through the segments in
order, and a broker holds many logs.

Rolling: a batch goes into a new segment when the active one is full by bytes, age, indexes or offsets (`LogSegment.shouldRoll`).

Replacing: cleaned segments take the place of those that they were made from (`replaceSegments`). Files are renamed `.cleaned` → `.swap` →
no suffix, and no suffix → `.deleted`. A crash between any two steps leaves names from which `resolve_names` finds a whole log again.

Retention: how many of the oldest segments have expired by the log's start, its size and its age, and marking their files as deleted
(`deleteOldSegments`).
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from threading import RLock
from typing import Final, NamedTuple
from zlib import crc32

from ottla.log.checkpoints import LOG_SUFFIX, SEGMENT_SUFFIXES, SNAPSHOT_SUFFIX, offset_of
from ottla.log.durability import Durability
from ottla.log.file_system import Buffer, Files
from ottla.log.log_reading import OpenSegment, SegmentView
from ottla.log.producer_state import ProducerStates
from ottla.log.segment import NO_TIMESTAMP, RELATIVE_OFFSET_MAX, Segment
from ottla.log.settings import LogSettings
from ottla.log.transaction_state import AbortedTransactions
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import BatchHeader, decode_batch

CLEANED_SUFFIX: Final = ".cleaned"
SWAP_SUFFIX: Final = ".swap"
DELETED_SUFFIX: Final = ".deleted"
_TEMPORARY_SUFFIX: Final = ".tmp"


def mark_deleted(files: Files, paths: Iterable[str]) -> tuple[str, ...]:
    """Rename those of the files that exist; their new names."""
    there = [path for path in paths if files.exists(path)]
    for path in there:
        files.rename(path, path + DELETED_SUFFIX)
    return tuple(path + DELETED_SUFFIX for path in there)


def segment_files(segment: Segment) -> list[str]:
    """The paths of a segment's files, whether they exist or not; the log first, since it is the log that makes a segment."""
    return [segment.file(suffix) for suffix in SEGMENT_SUFFIXES]


def remove_cleaned(files: Files, path: str) -> None:
    """Remove files of a cleaning that are no longer needed."""
    for suffix in SEGMENT_SUFFIXES:
        for made in (path + suffix + CLEANED_SUFFIX, path + suffix + SWAP_SUFFIX):
            if files.exists(made):
                files.remove(made)


class HalfSwapped(StorageError):
    """The disk failed in the middle of a swap: opening the log again completes it. No file of it may be removed."""


def make_ready(files: Files, path: str) -> None:
    """Durable `.cleaned` files become `.swap`: from here on a crash ends with the swap done. Any thread may do it; it waits for the disk.

    No name that the log lives by changes before all new ones are durable, whatever order the file system keeps changes of names in.
    """
    directory = path.rpartition("/")[0]
    files.sync_directory(directory)
    for suffix in reversed(SEGMENT_SUFFIXES):  # the log last: from then on the swap counts
        if files.exists(path + suffix + CLEANED_SUFFIX):
            files.rename(path + suffix + CLEANED_SUFFIX, path + suffix + SWAP_SUFFIX)
        elif files.exists(path + suffix + SWAP_SUFFIX):  # of an earlier cleaning, whose swap was never asked for
            files.remove(path + suffix + SWAP_SUFFIX)
    files.sync_directory(directory)


def is_ready(files: Files, path: str) -> bool:
    """Whether there is something to swap in."""
    return files.exists(path + LOG_SUFFIX + SWAP_SUFFIX)


def swap_in(files: Files, path: str, replaced: Sequence[Segment]) -> tuple[str, ...]:
    """Give `.swap` files (see `make_ready`) the place of `replaced`, the first of which has the same path. The old files' names."""
    try:
        # From the newest to the oldest: while the first one is there, what is left has no hole.
        deleted = [old for segment in reversed(replaced) for old in mark_deleted(files, reversed(segment_files(segment)))]
        deleted += mark_deleted(files, [segment.path + SNAPSHOT_SUFFIX for segment in replaced[1:]])
        for name in [path + suffix for suffix in reversed(SEGMENT_SUFFIXES)]:
            if files.exists(name + SWAP_SUFFIX):
                files.rename(name + SWAP_SUFFIX, name)
    except StorageError as error:
        raise HalfSwapped(
            f"the log {path.rpartition('/')[0]} must be opened again: a swap of its segments was interrupted ({error})"
        ) from error
    return tuple(deleted)


def resolve_names(files: Files, directory: str) -> list[str]:
    """Finish or undo what a crash interrupted; the names that are in the directory then."""
    names = files.list(directory)
    cleaned = [base for name in names if name.endswith(CLEANED_SUFFIX) and (base := offset_of(name)) is not None]
    undone = min(cleaned, default=None)
    gone = [name for name in names if name.endswith((_TEMPORARY_SUFFIX, CLEANED_SUFFIX, DELETED_SUFFIX))]
    swaps = [name for name in names if name.endswith(SWAP_SUFFIX)]
    if undone is not None:
        gone += [name for name in swaps if (base := offset_of(name)) is None or base >= undone]
    swaps = [name for name in swaps if name not in gone]
    gone += _replaced(files, directory, names, swaps)
    for name in gone:
        files.remove(f"{directory}/{name}")
    for name in sorted(swaps, key=lambda name: name.endswith(LOG_SUFFIX + SWAP_SUFFIX)):
        files.rename(f"{directory}/{name}", f"{directory}/{name.removesuffix(SWAP_SUFFIX)}")
    if gone or swaps:
        files.sync_directory(directory)
        names = files.list(directory)
    return names


def _replaced(files: Files, directory: str, names: list[str], swaps: list[str]) -> list[str]:
    """The plain files whose place the finished swaps take: all from the first one's base to the last one's end."""
    logs = [name for name in swaps if name.endswith(LOG_SUFFIX + SWAP_SUFFIX)]
    ranges = []
    for name in logs:
        base = offset_of(name)
        if base is not None:
            swap = Segment(files, directory, base, index_interval_bytes=0, made_ms=0, file_suffix=SWAP_SUFFIX)
            ranges.append((base, max([base, *(header.last_offset for _, header in swap.batches())])))
            swap.close()
    plain = [(name, base) for name in names if name.endswith(SEGMENT_SUFFIXES) and (base := offset_of(name)) is not None]
    return [name for name, base in plain if any(first <= base <= last for first, last in ranges)]


class AgingSegment(NamedTuple):
    """One segment, oldest first. `end_offset` is where the next one begins; `latest_ms` the largest timestamp of its records."""

    end_offset: int
    size_bytes: int
    latest_ms: int


class Segments:
    """Never empty once a log has begun; only the last one, `active`, is appended to.

    `names` is held while files of the log get other names, so that another thread can open all of them as they are.
    """

    __slots__ = ("_all", "_bases", "_kept_open", "names")

    def __init__(self, segments: list[Segment]) -> None:
        self._all = segments
        self._bases = [segment.base_offset for segment in segments]
        self._kept_open: Segment | None = None
        self.names = RLock()

    def __len__(self) -> int:
        return len(self._all)

    @property
    def active(self) -> Segment:
        return self._all[-1]

    @property
    def start_offset(self) -> int:
        """The base of the first segment; 0 without one."""
        return self._bases[0] if self._bases else 0

    @property
    def size_bytes(self) -> int:
        return sum(segment.size for segment in self._all)

    def add(self, segment: Segment) -> None:
        """The new active segment. The one before it is kept open, since most readers read near the end."""
        before = self._all[-1] if self._all else None
        self._all.append(segment)
        self._bases.append(segment.base_offset)
        if before is not None:
            self._keep_open(before)

    def aging(self, log_end_offset: int) -> Iterator[AgingSegment]:
        """What retention needs to know of each segment, oldest first; read from the files as it is needed."""
        for number, segment in enumerate(self._all):
            latest_ms = self._largest_timestamp_ms(number)
            latest_ms = segment.made_ms if latest_ms == NO_TIMESTAMP else latest_ms
            yield AgingSegment(self._end_of(number, log_end_offset), segment.size, latest_ms)

    def views(self, below_offset: int) -> tuple[SegmentView, ...]:
        """The segments that end at or before `below_offset`, without the active one."""
        views = []
        for number, segment in enumerate(self._all[:-1]):
            end_offset = self._bases[number + 1]
            if end_offset > below_offset:
                break
            latest_ms = self._largest_timestamp_ms(number)
            views.append(SegmentView(segment.base_offset, end_offset, segment.size, segment.path, latest_ms, *segment.index_bytes()))
        return tuple(views)

    def end_of(self, base_offset: int, log_end_offset: int) -> int:
        """Where the segment after the one at `base_offset` begins."""
        return self._end_of(self._bases.index(base_offset), log_end_offset)

    def _end_of(self, number: int, log_end_offset: int) -> int:
        return self._bases[number + 1] if number + 1 < len(self._bases) else log_end_offset

    def holds(self, bases: Sequence[int]) -> bool:
        """Whether these are base offsets of neighbouring segments, the active one not among them."""
        if not bases or bases[0] not in self._bases:
            return False
        first = self._bases.index(bases[0])
        return self._bases[first : first + len(bases)] == list(bases) and first + len(bases) < len(self._bases)

    def neighbours(self, bases: Sequence[int]) -> list[Segment]:
        """The segments with these base offsets."""
        first = self._bases.index(bases[0])
        return self._all[first : first + len(bases)]

    def count_below(self, base_offset: int) -> int:
        """How many segments begin below `base_offset`."""
        return bisect_left(self._bases, base_offset)

    def take_first(self, count: int) -> list[Segment]:
        """The `count` oldest segments, closed and no longer in the log."""
        return self._take(0, count)

    def replace(self, bases: Sequence[int], segment: Segment) -> None:
        """Puts `segment` where those with these base offsets were."""
        first = self._bases.index(bases[0])
        self._take(first, len(bases))
        self._all.insert(first, segment)
        self._bases.insert(first, segment.base_offset)

    def all(self) -> list[Segment]:
        """The segments in their order, as they are now. Any thread."""
        return list(self._all)

    def opened_again(self) -> list[OpenSegment]:
        """Those that hold something, each by a handle of its own. Any thread, while it holds `names`."""
        opened: list[OpenSegment] = []
        try:
            opened.extend(segment.opened_again() for segment in self._all if segment.size)
        except StorageError:
            for each in opened:
                each.file.close()
            raise
        return opened

    def _take(self, first: int, count: int) -> list[Segment]:
        with self.names:
            taken = self._all[first : first + count]
            del self._all[first : first + count], self._bases[first : first + count]
        if self._kept_open in taken:
            self._kept_open = None
        for segment in taken:
            segment.close()
        return taken

    def close(self) -> None:
        """Close the files, and free the indexes of full segments."""
        self._kept_open = None
        for segment in self._all:
            segment.close()
            if segment is not self._all[-1]:
                segment.drop_indexes()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """The files are renamed in here, and another log may get their names: readers on other threads find no segment any more."""
        with self.names:
            self.close()
            yield
            self._all, self._bases = [], []

    def _opened(self, number: int) -> Segment:
        segment = self._all[number]
        if segment is not self._all[-1] and segment is not self._kept_open:
            self._keep_open(segment)
        return segment

    def _keep_open(self, segment: Segment) -> None:
        if self._kept_open is not None:
            self._kept_open.close()
            self._kept_open.drop_indexes()
        self._kept_open = segment

    def _first(self, offset: int) -> int:
        return max(0, bisect_right(self._bases, offset) - 1)

    def read(self, offset: int, max_bytes: int, *, at_least_one: bool, wait: bool = True, end_offset: int | None = None) -> Buffer:
        """Whole batches from the one that holds `offset` on and before `end_offset`, out of one segment; empty when nothing follows."""
        for number in range(self._first(offset), len(self._all)):
            data = self._opened(number).read(offset, max_bytes, at_least_one=at_least_one, wait=wait, end_offset=end_offset)
            if data is not None:
                return data
        return b""

    def read_batches(self, from_offset: int) -> Iterator[tuple[BatchHeader, list[Record]]]:
        """Each batch from the one that holds `from_offset` on, decoded; StorageError where one is damaged."""
        for number in range(self._first(from_offset), len(self._all)):
            segment = self._opened(number)
            found = segment.locate(from_offset)
            if found is not None:
                end, _ = found
                for position, header in segment.batches(end):
                    yield header, _decode(segment, position, header)
                    end = position + header.size_bytes
                if end != segment.size:
                    raise segment.damaged(end)

    def _largest_timestamp_ms(self, number: int) -> int:
        segment = self._all[number]
        if not segment.is_counted:
            self._opened(number)
        return segment.largest_timestamp()[0]


def _decode(segment: Segment, position: int, header: BatchHeader) -> list[Record]:
    try:
        return decode_batch(segment.read_batch(position, header))
    except PeerError as error:
        raise StorageError(f"the batch at offset {header.base_offset} of {segment.path}{LOG_SUFFIX} cannot be read: {error}") from error


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


def expired_segments(
    segments: Callable[[], Iterable[AgingSegment]],
    *,
    log_start_offset: int,
    high_watermark: int,
    size_bytes: int,
    by_age_and_size: bool,
    retention_ms: int,
    retention_bytes: int,
    now_ms: int,
) -> int:
    """How many leading segments have expired; all of them may, the active one too. Nothing above the high watermark expires.

    `segments` returns a new iterator at each call, which is read no further than needed. `by_age_and_size`: cleanup.policy has `delete`;
    otherwise only what lies below the log's start expires. -1 as `retention_ms` or `retention_bytes` sets no limit.
    """

    def leading(is_expired: Callable[[AgingSegment], bool]) -> int:
        count = 0
        for segment in segments():
            if segment.end_offset > high_watermark or not is_expired(segment):
                break
            count += 1
        return count

    gone = leading(lambda segment: segment.end_offset <= log_start_offset)
    if not by_age_and_size:
        return gone
    if retention_bytes >= 0:
        excess_bytes = size_bytes - retention_bytes

        def is_in_excess(segment: AgingSegment) -> bool:
            nonlocal excess_bytes
            excess_bytes -= segment.size_bytes
            return excess_bytes >= 0

        gone = max(gone, leading(is_in_excess))
    if retention_ms >= 0:
        gone = max(gone, leading(lambda segment: now_ms - segment.latest_ms > retention_ms))
    return gone


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
