"""The segments of one log in their order: which of them holds an offset or a time, and reading from there.

It writes nothing. At most one segment besides the last is held open with its indexes in memory, since readers of old data go through the
segments in order, and a broker holds many logs.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import RLock

from ottla.core.errors import PeerError, StorageError
from ottla.core.model import Record
from ottla.core.records.batch import BatchHeader, decode_batch
from ottla.core.retention import AgingSegment
from ottla.storage.file_system import Buffer
from ottla.storage.log.file_names import LOG_SUFFIX
from ottla.storage.log.log_reading import OpenSegment
from ottla.storage.log.log_snapshot import SegmentView
from ottla.storage.log.segment import NO_TIMESTAMP, Segment


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
