"""Fetched batches until the application takes their records.

Fetched records that the application has not taken yet, and the order in which it gets them (Kafka: `FetchBuffer`, `FetchCollector`).

Bytes are decoded when the application comes to them, by the decoder that it is given. Records of one fetch are handed out before those of
the next; `take` may hand out records of several partitions. It knows no positions besides the records' own.

A run: the next buffered records of one partition, which the application takes one at a time, without the lock of the engine.

Taking a row is one operation that no other thread can divide, so a run can be ended at any time, and it is known which records were
taken. Positions, commits and the buffer follow when the engine settles it. It decides nothing.
"""

from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from typing import Final, NamedTuple, Protocol

from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.errors import PeerError
from ottla.protocol.model import TopicPartition


class Columns(Protocol):
    """Decoded records of one partition, in the order of their offsets."""

    def __len__(self) -> int: ...

    def offset(self, row: int) -> int:
        """The offset of a record."""

    def leader_epoch(self, row: int) -> int:
        """The epoch of the leader that appended a record, -1 if it is not known."""


Decode = Callable[[FetchedRecords], Iterator[Columns]]
"""Records from `position` on, without control records and those of aborted transactions; some at a time. Raises PeerError."""


class Slice(NamedTuple):
    """Records `first` to `end` (exclusive) of some columns; afterwards the position is `next_offset`, whose leader's epoch was `epoch`."""

    partition: TopicPartition
    columns: Columns
    first: int
    end: int
    next_offset: int
    epoch: int


class UndecodableRecords(Exception):
    """Records of a partition cannot be read. The position stays before them."""

    def __init__(self, partition: TopicPartition, position: int, why: PeerError) -> None:
        super().__init__(
            f"records of {partition.topic}-{partition.partition} cannot be read from offset {position} on: {why}; seek behind them to go on"
        )
        self.partition = partition


class _Fetched:
    """One fetch, decoded as far as the application has come. `error`: what follows cannot be read."""

    __slots__ = ("columns", "error", "following", "pieces", "position", "row", "size_bytes")

    def __init__(self, fetched: FetchedRecords, pieces: Iterator[Columns]) -> None:
        self.position = fetched.position
        self.following = fetched.next_offset
        self.size_bytes = len(fetched.records)
        self.pieces = pieces
        self.columns: Columns | None = None
        self.error: PeerError | None = None
        self.row = 0

    def has_records(self) -> bool:
        """Whether a record is left before the end, or before the error."""
        if self.columns is None or self.row == len(self.columns):
            self.row = 0
            try:
                self.columns = next(self.pieces, None)
            except PeerError as error:
                # A generator that raised ends: without its error, what follows would be skipped.
                self.columns, self.error = None, error
        return self.columns is not None


class RecordBuffer:
    """The buffered records of all partitions. `size_bytes`: of all that was fetched and not handed out entirely."""

    def __init__(self, decode: Decode) -> None:
        self._decode = decode
        # In the order in which they are read: a partition whose first fetch was handed out goes to the back.
        self._queues: dict[TopicPartition, deque[_Fetched]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self.size_bytes = 0

    def add(self, fetched: FetchedRecords) -> None:
        """Buffer one fetch."""
        partition = fetched.partition
        self._queues.setdefault(partition, deque()).append(_Fetched(fetched, self._decode(fetched)))
        self._sizes[partition] = self._sizes.get(partition, 0) + len(fetched.records)
        self.size_bytes += len(fetched.records)

    def drop(self, partition: TopicPartition) -> None:
        """Forget what is buffered for a partition."""
        self._queues.pop(partition, None)
        self.size_bytes -= self._sizes.pop(partition, 0)

    def partition_bytes(self, partition: TopicPartition) -> int:
        """Buffered bytes of one partition; 0 when all its records were handed out."""
        return self._sizes.get(partition, 0)

    def has_records(self, is_readable: Callable[[TopicPartition], bool]) -> bool:
        """Whether there may be something to take."""
        return any(map(is_readable, self._queues))

    def peek(self, count: int, is_readable: Callable[[TopicPartition], bool]) -> Slice | None:
        """The records that `take` would give first, as far as they are decoded already; they stay buffered."""
        partition = next(filter(is_readable, self._queues), None)
        fetched = None if partition is None else self._queues[partition][0]
        if partition is None or fetched is None or fetched.columns is None or fetched.row == len(fetched.columns):
            return None
        return _slice(partition, fetched.columns, fetched.row, count)

    def take(self, count: int, is_readable: Callable[[TopicPartition], bool], *, enough: int | None = None) -> list[Slice]:
        """At most `count` records of partitions that are readable now; the others' stay buffered. `enough`: after so many no slice begins.

        A slice without records moves a position behind offsets that hold none. Raises UndecodableRecords when the bad batch is next; what
        was fetched with it is dropped.
        """
        slices: list[Slice] = []
        spare = 0 if enough is None else max(count - enough, 0)
        while count > spare:
            partition = next(filter(is_readable, self._queues), None)
            if partition is None:
                break
            fetched = self._queues[partition][0]
            if fetched.has_records():
                assert fetched.columns is not None
                part = _slice(partition, fetched.columns, fetched.row, count)
                fetched.row, fetched.position = part.end, part.next_offset
                slices.append(part)
                count -= part.end - part.first
            elif fetched.error is None:
                self._finish_first(partition)
                slices.append(Slice(partition, NOTHING, 0, 0, fetched.following, -1))
            elif slices:
                break
            else:
                self.drop(partition)
                raise UndecodableRecords(partition, fetched.position, fetched.error) from fetched.error
            if fetched.columns is not None and fetched.row == len(fetched.columns) and not fetched.has_records() and fetched.error is None:
                self._finish_first(partition)
                slices[-1] = slices[-1]._replace(next_offset=fetched.following)
        return slices

    def _finish_first(self, partition: TopicPartition) -> None:
        """The partition's first fetch was handed out: other partitions come next."""
        queue = self._queues.pop(partition)
        size_bytes = queue.popleft().size_bytes
        self.size_bytes -= size_bytes
        self._sizes[partition] -= size_bytes
        if queue:
            self._queues[partition] = queue
        else:
            del self._sizes[partition]


def _slice(partition: TopicPartition, columns: Columns, first: int, count: int) -> Slice:
    """At most `count` rows from `first` on, which exists."""
    end = min(first + count, len(columns))
    return Slice(partition, columns, first, end, columns.offset(end - 1) + 1, columns.leader_epoch(end - 1))


class _Nothing:
    """Columns without records."""

    def __len__(self) -> int:
        return 0

    def offset(self, row: int) -> int:
        raise IndexError(row)

    def leader_epoch(self, row: int) -> int:
        raise IndexError(row)


NOTHING: Final = _Nothing()


ROWS_MIN: Final = 32
ROWS_MAX: Final = 4096
MS_MAX: Final = 100.0
"""How long a run lasts at most: whatever is due for another reason than a response waits no longer."""


class RecordRun:
    """Rows `first` to `end` (exclusive) of some columns, until `ends_ms`. `rows`: those that are left; the application takes the first one.

    `polled_ms`: when the application polled last.
    """

    __slots__ = ("_count", "columns", "ends_ms", "partition", "polled_ms", "rows")

    def __init__(self, partition: TopicPartition, columns: Columns, first: int, end: int, *, now_ms: float, ends_ms: float) -> None:
        self.partition = partition
        self.columns = columns
        self.rows = deque(range(first, end))
        self._count = len(self.rows)
        self.polled_ms = now_ms
        self.ends_ms = ends_ms

    def end(self) -> int:
        """Let no more rows be taken: how many were."""
        left = 0
        try:
            # One by one and from the end: the application may take rows meanwhile, and what it gets has no gap.
            while True:
                self.rows.pop()
                left += 1
        except IndexError:
            return self._count - left


NO_RUN: Final = RecordRun(TopicPartition("", -1), NOTHING, 0, 0, now_ms=-inf, ends_ms=-inf)


def next_rows(taken: int) -> int:
    """How many rows the run has that follows one of which so many were taken. Rows that are not taken are made for nothing."""
    return min(max(2 * taken, ROWS_MIN), ROWS_MAX)
