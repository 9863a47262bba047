"""Fetched batches until the application takes their records, in the order in which it gets them (Kafka: `FetchBuffer`, `FetchCollector`).

Bytes are decoded when the application comes to them, by the decoder that the buffer is given. Records of one fetch are handed out before
those of the next; `take` may hand out records of several partitions. It knows no positions besides the records' own.
A few bytes may decompress to many: what is decoded at a time is bounded.

A run is the next records of one partition, which the application takes one at a time, without the lock of the engine. Taking a row is one
operation that no other thread can divide, so a run can be ended at any time, and it is known which records were taken. Positions, commits
and the buffer follow when the engine settles it.
"""

from collections import deque
from collections.abc import Callable, Iterator
from math import inf
from typing import Final, NamedTuple, Protocol

from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.errors import PeerError
from ottla.protocol.model import TopicPartition


class Columns(Protocol):
    """Decoded records of one partition, in the order of their offsets.

    `size_bytes`: the memory that they hold, with what is decompressed for those that come next.
    """

    @property
    def size_bytes(self) -> int: ...

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
    """One fetch, decoded as far as the application has come. `error`: what follows cannot be read; `decoded_bytes`: memory of decoding."""

    __slots__ = ("_decode", "_fetched", "_pieces", "columns", "decoded_bytes", "error", "position", "row")

    def __init__(self, fetched: FetchedRecords, decode: Decode) -> None:
        self.position = fetched.position
        self.error: PeerError | None = None
        self._fetched = fetched
        self._decode = decode
        self.forget_decoded()

    @property
    def following(self) -> int:
        """The offset behind the fetch."""
        return self._fetched.next_offset

    @property
    def size_bytes(self) -> int:
        """As it was fetched."""
        return len(self._fetched.records)

    def forget_decoded(self) -> None:
        """Free the memory of decoded records: those from `position` on are decoded again."""
        self.columns: Columns | None = None
        self.row = self.decoded_bytes = 0
        self._pieces = self._decode(self._fetched._replace(position=self.position))

    def has_records(self) -> bool:
        """Whether a record is left before the end, or before the error."""
        if self.columns is None:
            try:
                self.columns = next(self._pieces, None)
            except PeerError as error:
                # A generator that raised ends: without its error, what follows would be skipped. Its traceback would keep the memory of
                # what was decompressed.
                self.error = PeerError(str(error))
            self.decoded_bytes = 0 if self.columns is None else self.columns.size_bytes
        return self.columns is not None

    def hand_out(self, part: "Slice") -> None:
        """A slice of the columns is the application's now."""
        self.row, self.position = part.end, part.next_offset
        if part.end == len(part.columns):
            self.columns, self.row = None, 0


class RecordBuffer:
    """The buffered records of all partitions. `size_bytes`: of all that was fetched and not handed out entirely.

    `decoded_bytes_max`: where so much is decoded, no more is decoded before it is handed out; a larger batch is decoded alone.
    """

    def __init__(self, decode: Decode, decoded_bytes_max: int) -> None:
        self._decode = decode
        self._decoded_bytes_max = decoded_bytes_max
        # In the order in which they are read: a partition whose first fetch was handed out goes to the back.
        self._queues: dict[TopicPartition, deque[_Fetched]] = {}
        self._sizes: dict[TopicPartition, int] = {}
        self._begun: dict[TopicPartition, _Fetched] = {}
        self.size_bytes = 0

    def add(self, fetched: FetchedRecords) -> None:
        """Buffer one fetch."""
        partition = fetched.partition
        self._queues.setdefault(partition, deque()).append(_Fetched(fetched, self._decode))
        self._sizes[partition] = self._sizes.get(partition, 0) + len(fetched.records)
        self.size_bytes += len(fetched.records)

    def drop(self, partition: TopicPartition) -> None:
        """Forget what is buffered for a partition."""
        self._queues.pop(partition, None)
        self._begun.pop(partition, None)
        self.size_bytes -= self._sizes.pop(partition, 0)

    def partition_bytes(self, partition: TopicPartition) -> int:
        """Buffered bytes of one partition; 0 when all its records were handed out."""
        return self._sizes.get(partition, 0)

    def end(self, partition: TopicPartition) -> int | None:
        """The offset behind what is buffered for a partition, None where nothing is."""
        queue = self._queues.get(partition)
        return queue[-1].following if queue else None

    def has_records(self, is_readable: Callable[[TopicPartition], bool]) -> bool:
        """Whether there may be something to take."""
        return any(map(is_readable, self._queues))

    def peek(self, count: int, is_readable: Callable[[TopicPartition], bool]) -> Slice | None:
        """The records that `take` would give first, as far as they are decoded already; they stay buffered."""
        partition = next(filter(is_readable, self._queues), None)
        fetched = None if partition is None else self._queues[partition][0]
        if partition is None or fetched is None or fetched.columns is None:
            return None
        return _slice(partition, fetched.columns, fetched.row, count)

    def take(self, count: int, is_readable: Callable[[TopicPartition], bool], *, enough: int | None = None) -> list[Slice]:
        """At most `count` records of partitions that are readable now; the others' stay buffered. `enough`: after so many no slice begins.

        A slice without records moves a position behind offsets that hold none. Raises UndecodableRecords when the bad batch is next; what
        was fetched with it is dropped.
        """
        slices: list[Slice] = []
        spare = 0 if enough is None else max(count - enough, 0)
        taken_bytes = 0
        while count > spare:
            partition = next(filter(is_readable, self._queues), None)
            if partition is None:
                break
            fetched = self._queues[partition][0]
            if fetched.columns is None and not self._make_room(partition, taken_bytes):
                break
            if fetched.has_records():
                assert fetched.columns is not None
                self._begun[partition] = fetched
                if taken_bytes and taken_bytes + fetched.decoded_bytes > self._decoded_bytes_max:
                    break
                part = _slice(partition, fetched.columns, fetched.row, count)
                taken_bytes += fetched.decoded_bytes
                fetched.hand_out(part)
                slices.append(part)
                count -= part.end - part.first
                is_looked_ahead = part.end == len(part.columns) and taken_bytes < self._decoded_bytes_max
                if is_looked_ahead and not fetched.has_records() and fetched.error is None:
                    self._finish_first(partition)
                    slices[-1] = part._replace(next_offset=fetched.following)
            elif fetched.error is None:
                self._finish_first(partition)
                slices.append(Slice(partition, NOTHING, 0, 0, fetched.following, -1))
            elif slices:
                break
            else:
                self.drop(partition)
                raise UndecodableRecords(partition, fetched.position, fetched.error) from fetched.error
        return slices

    def _make_room(self, partition: TopicPartition, taken_bytes: int) -> bool:
        """Before records of a partition are decoded: whether there is space for them. Those of others may be decoded again later."""
        if taken_bytes >= self._decoded_bytes_max:
            return False
        others = {other: fetched for other, fetched in self._begun.items() if other != partition}
        if sum(fetched.decoded_bytes for fetched in others.values()) + taken_bytes >= self._decoded_bytes_max:
            for other, fetched in others.items():
                fetched.forget_decoded()
                del self._begun[other]
        return True

    def _finish_first(self, partition: TopicPartition) -> None:
        """The partition's first fetch was handed out: other partitions come next."""
        queue = self._queues.pop(partition)
        self._begun.pop(partition, None)
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

    size_bytes = 0

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
