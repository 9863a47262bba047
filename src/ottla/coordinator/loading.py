"""Loads a coordinator's log: selects the batches that count, and gives them to a reducer in the order of the log.

Records of transactions that were aborted or have not ended do not count: offsets that were committed within a transaction (TxnOffsetCommit,
28) count when the transaction was committed, at their own place in the log. Those of open transactions are given apart.
"""

from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence, Set
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

from crc32c import crc32c

from ottla.log.log_reading import LogReading, damaged
from ottla.log.partition_log import PartitionLog
from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import (
    ATTRIBUTES_AT,
    CODEC_MASK,
    CONTROL_BIT,
    HEADER_BYTES,
    TRANSACTIONAL_BIT,
    BatchHeader,
    decode_batch,
    iter_batch,
    only_record,
    read_header,
    split_batches,
)
from ottla.protocol.records.control import ControlType, control_type

Buffer = bytes | bytearray | memoryview
_OFFSET_MAX: Final = 2**63 - 1
LoadedT = TypeVar("LoadedT")
LoadedT_co = TypeVar("LoadedT_co", covariant=True)


class UncommittedBatch(NamedTuple):
    """Records of one batch of a producer whose transaction had not ended when the log was read."""

    producer_id: int
    records: list[Record]


class Loaded(NamedTuple, Generic[LoadedT_co]):
    """What a log replays to. `unknown` counts records of unknown types; `problems` names the skipped records and why, in offset order."""

    replayed: LoadedT_co
    unknown: int
    problems: tuple[str, ...]
    open_transactions: tuple[UncommittedBatch, ...] = ()


class ScannedBatches(Protocol):
    """The complete batches at the start of a buffer, with headers read and checksums verified."""

    @property
    def size_bytes(self) -> int:
        """The end of the last complete batch; 0 if there is none."""
        ...

    @property
    def next_batch_bytes(self) -> int:
        """The size of the incomplete batch that follows; 0 if its size is not in the buffer."""
        ...

    @property
    def special(self) -> Sequence[int]:
        """Positions of control batches and of batches in transactions."""
        ...


class Reducer(Protocol[LoadedT_co]):
    """Reduces one log, on one thread: replays all records in bulk. `scan` and `apply` raise PeerError for a damaged batch."""

    def scan(self, buffer: Buffer) -> ScannedBatches:
        """Scan the batches of a buffer, which must not change until they have been applied."""
        ...

    def apply(self, scanned: ScannedBatches, *, skipped: Set[int], from_offset: int) -> None:
        """Apply the batches scanned last, except those at the positions `skipped` and those that end before `from_offset`."""
        ...

    def finish(self) -> Loaded[LoadedT_co]:
        """The state that all applied batches replay to. Ends the reducer's use."""
        ...


ReducerFactory = Callable[[], Reducer[LoadedT]]
"""Creates the reducer of one log."""


def skipped_record(offset: int, error: PeerError) -> str:
    """The text for a skipped record in `Loaded.problems`."""
    return f"the record at offset {offset} is passed over: {error}"


class RecordReducer(ABC, Generic[LoadedT]):
    """A reducer that decodes one record after the other, in Python: the reference of compiled ones."""

    def __init__(self) -> None:
        self.unknown = 0
        self.problems: list[str] = []

    @abstractmethod
    def _apply_record(self, key: bytes | None, value: bytes | None) -> None:
        """Apply one record, or count it as `unknown`. Raises PeerError for one without meaning, which is skipped."""

    @abstractmethod
    def finish(self) -> Loaded[LoadedT]:
        """The state that all applied batches replay to."""

    def scan(self, buffer: Buffer) -> "CheckedBatches":
        return CheckedBatches(buffer)

    def apply(self, scanned: ScannedBatches, *, skipped: Set[int], from_offset: int) -> None:
        assert isinstance(scanned, CheckedBatches), "scanned batches belong to the backend that scanned them"
        for position, header in scanned.batches:
            if position not in skipped and header.last_offset >= from_offset:
                only = None
                if header.record_count == 1 and not header.attributes & CODEC_MASK:
                    only = only_record(scanned.buffer, position + HEADER_BYTES, position + header.size_bytes)
                records = ((header.base_offset, *only),) if only is not None else _records(scanned.buffer, position)
                for offset, key, value in records:
                    try:
                        self._apply_record(key, value)
                    except PeerError as error:
                        self.problems.append(skipped_record(offset, error))


def _records(buffer: Buffer, position: int) -> Iterator[tuple[int, bytes | None, bytes | None]]:
    for offset, _, key, value, _ in iter_batch(buffer, position, verify_crc=False):
        yield offset, key, value


class CheckedBatches:
    """The complete batches at the start of a buffer (protocol: `ScannedBatches`)."""

    __slots__ = ("batches", "buffer", "next_batch_bytes", "size_bytes", "special")

    def __init__(self, buffer: Buffer) -> None:
        self.buffer = buffer
        self.batches = list(_valid_batches(buffer))
        self.size_bytes = 0
        if self.batches:
            position, header = self.batches[-1]
            self.size_bytes = position + header.size_bytes
        left = memoryview(buffer)[self.size_bytes : self.size_bytes + HEADER_BYTES]
        self.next_batch_bytes = read_header(left).size_bytes if len(left) == HEADER_BYTES else 0
        self.special: Sequence[int] = [at for at, header in self.batches if header.attributes & (TRANSACTIONAL_BIT | CONTROL_BIT)]


def _valid_batches(buffer: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    with memoryview(buffer) as view:
        for position, header in split_batches(buffer):
            if header.base_offset + header.last_offset_delta > _OFFSET_MAX:
                raise PeerError("a batch header with an impossible length, offset or count")
            if crc32c(view[position + ATTRIBUTES_AT : position + header.size_bytes]) != header.crc:
                raise PeerError(f"the batch at offset {header.base_offset} does not match its checksum")
            yield position, header


def load(log: PartitionLog, make_reducer: ReducerFactory[LoadedT]) -> Loaded[LoadedT]:
    """Reduce a coordinator's log. Raises StorageError where the log is damaged or cannot be read.

    Any thread, while no records are appended to the log; the cleaner may run.
    """
    with log.reading() as reading:
        reducer = make_reducer()
        transactions = _Transactions(reading, _commits(reading, reducer))
        opened: list[UncommittedBatch] = []
        for name, buffer, piece in reading.pieces(reducer.scan):
            special = _special(buffer, piece)
            skipped = {at for at, header in special if not transactions.counts(header)}
            try:
                for at, header in special:
                    if transactions.is_open(header):
                        opened.append(UncommittedBatch(header.producer_id, decode_batch(buffer, at, verify_crc=False)))
                reducer.apply(piece, skipped=skipped, from_offset=reading.log_start_offset)
            except PeerError as error:
                raise damaged(name, error) from error
        return reducer.finish()._replace(open_transactions=tuple(opened))


class _Transactions:
    """Which of a log's transactions were committed."""

    def __init__(self, reading: LogReading, commits: dict[int, int]) -> None:
        self._stable = reading.last_stable_offset
        self._commits = commits
        self._aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for each in reading.aborted:
            self._aborted[each.producer_id].append((each.first_offset, each.last_offset))

    def counts(self, header: BatchHeader) -> bool:
        """Whether the records of a batch count. Below the last stable offset, a transaction that was not aborted was committed."""
        if header.is_control:
            return False
        if not header.is_transactional:
            return True
        return self._has_committed(header) and not self._is_aborted(header)

    def is_open(self, header: BatchHeader) -> bool:
        """Whether a batch belongs to a transaction that has not ended."""
        return header.is_transactional and not header.is_control and not self._has_committed(header) and not self._is_aborted(header)

    def _has_committed(self, header: BatchHeader) -> bool:
        return header.base_offset < self._stable or self._commits.get(header.producer_id, -1) > header.base_offset

    def _is_aborted(self, header: BatchHeader) -> bool:
        return any(first <= header.base_offset < marker for first, marker in self._aborted.get(header.producer_id, ()))


def _commits(reading: LogReading, reducer: Reducer[Any]) -> dict[int, int]:
    """The offset of each producer's last commit, from the first open transaction on: others may have ended behind it."""
    found: dict[int, int] = {}
    if reading.last_stable_offset == reading.log_end_offset:
        return found
    for name, buffer, piece in reading.pieces(reducer.scan, reading.last_stable_offset):
        for at, header in _special(buffer, piece):
            if header.is_control and header.base_offset >= reading.last_stable_offset and _is_commit(name, buffer, at):
                found[header.producer_id] = header.base_offset
    return found


def _special(buffer: Buffer, piece: ScannedBatches) -> list[tuple[int, BatchHeader]]:
    return [(at, read_header(buffer, at)) for at in piece.special]


def _is_commit(name: str, buffer: Buffer, at: int) -> bool:
    try:
        # A cleaning may leave a marker's batch without the marker.
        return any(control_type(record.key) == ControlType.COMMIT for record in decode_batch(buffer, at, verify_crc=False))
    except PeerError as error:
        raise damaged(name, error) from error
