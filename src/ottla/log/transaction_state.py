"""The transactions of one log: control batches as they are appended, aborted transactions and their index files (KIP-98).

Aborted transactions are in the order of their markers, in memory whole, and in the segments' `.txnindex` files; a reader decides what it
may read. `ProducerStates` checks epochs and sequences of client batches; both together are Kafka's ProducerStateManager.
"""

from bisect import bisect_left
from collections.abc import Iterable

from ottla.log.checkpoints import TRANSACTION_INDEX_SUFFIX
from ottla.log.durability import Durability
from ottla.log.file_system import Buffer, Files
from ottla.log.index import AbortedTransaction, decode_transactions, encode_transactions
from ottla.log.producer_state import ProducerStates
from ottla.log.segment import Segment
from ottla.protocol.errors import PeerError, StorageError
from ottla.protocol.records.batch import BatchHeader, decode_batch
from ottla.protocol.records.control import EndMarker, decode_end_marker


class AbortedTransactions:
    """They are few: a list with the markers' offsets beside it, which are searched."""

    __slots__ = ("_all", "_ends")

    def __init__(self, aborted: Iterable[AbortedTransaction] = ()) -> None:
        self._all = list(aborted)
        self._ends = [transaction.last_offset for transaction in self._all]

    def all(self) -> tuple[AbortedTransaction, ...]:
        return tuple(self._all)

    def overlapping(self, from_offset: int, to_offset: int) -> list[AbortedTransaction]:
        """Those that have records in the range, in the order of their markers."""
        first = bisect_left(self._ends, from_offset)
        return [transaction for transaction in self._all[first:] if transaction.first_offset < to_offset]

    def append(self, files: Files, segment: Segment, aborted: AbortedTransaction) -> None:
        """One more, whose marker lies at the end of `segment`. Recovery makes its entry again, should the file lose it."""
        self._all.append(aborted)
        self._ends.append(aborted.last_offset)
        file = files.open(segment.file(TRANSACTION_INDEX_SUFFIX))
        try:
            file.append(encode_transactions([aborted]))
        finally:
            file.close()

    def forget_below(self, offset: int) -> None:
        """The log begins at `offset` now."""
        self._set(transaction for transaction in self._all if transaction.last_offset >= offset)

    def reload(self, files: Files, segment: Segment, end_offset: int) -> None:
        """Of the transactions that ended in a segment, which reaches to `end_offset`, only those in its file are left."""
        path = segment.file(TRANSACTION_INDEX_SUFFIX)
        left = decode_transactions(files.read_all(path)) if files.exists(path) else []
        if left is None:
            raise StorageError(f"{path} is damaged; it is rebuilt when the broker is started again")
        before = [transaction for transaction in self._all if transaction.last_offset < segment.base_offset]
        self._set([*before, *left, *(transaction for transaction in self._all if transaction.last_offset >= end_offset)])

    def _set(self, aborted: Iterable[AbortedTransaction]) -> None:
        self._all = list(aborted)
        self._ends = [transaction.last_offset for transaction in self._all]


class TransactionState:
    """`producers`: the state of each producer. `aborted`: the log's aborted transactions."""

    __slots__ = ("_directory", "_durability", "_files", "aborted", "producers")

    def __init__(
        self,
        files: Files,
        directory: str,
        *,
        producers: ProducerStates,
        aborted: Iterable[AbortedTransaction],
        durability: Durability,
    ) -> None:
        self._files = files
        self._directory = directory
        self._durability = durability
        self.producers = producers
        self.aborted = AbortedTransactions(aborted)

    def add_control_batch(self, active: Segment, header: BatchHeader, batch: memoryview) -> None:
        """A producer's control batch lies at the end of the active segment. Raises StorageError when it is damaged."""
        marker = read_end_marker(batch)
        if marker is None:
            self.producers.note(header)
            return
        aborted = self.producers.end_transaction(header, marker)
        if aborted is not None:
            try:
                self.aborted.append(self._files, active, aborted)
            except StorageError as error:
                # The marker is in the log and counts; the next opening rebuilds the index from it.
                self._durability.broken = f"the log {self._directory} takes no more records: {error}"


def read_end_marker(batch: Buffer) -> EndMarker | None:
    """The marker in a whole control batch; None for another kind, or for one that the cleaner has emptied. StorageError when damaged."""
    try:
        records = decode_batch(batch, verify_crc=False)
        return decode_end_marker(records[0]) if records else None
    except PeerError as error:
        raise StorageError(f"a control batch in the log cannot be read: {error}") from error
