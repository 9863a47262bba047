"""What a cleaning does with batches that are not ordinary: aborted data is dropped, markers are kept until the data of their transaction is
gone, and the last batch of each live producer and of the cleaned range is kept, empty if no record of it is.

One object is used for one pass over a log, batch by batch in order. It reads no keys and writes nothing; the backend carries its
decisions out. Source: Kafka's `CleanedTransactionMetadata` and `Cleaner.cleanInto`.
"""

from array import array
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop
from itertools import count
from typing import Generic, Protocol, TypeVar

from ottla.core.cleaning.backend import BatchRetention, Buffer, Chunk
from ottla.core.records.batch import DECOMPRESSED_BYTES_MAX, HEADER_BYTES, BatchHeader, read_header
from ottla.core.records.compression import decompress
from ottla.core.records.control import ControlType, control_type
from ottla.core.records.raw import read_raw


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
