"""The aborted transactions of one log, in the order of their markers: kept in memory whole, and in the segments' `.txnindex` files.

The producer state manager adds them; a reader decides what it may read. Source: KIP-98.
"""

from bisect import bisect_left
from collections.abc import Iterable

from ottla.core.errors import StorageError
from ottla.storage.file_system import Files
from ottla.storage.log.file_names import TRANSACTION_INDEX_SUFFIX
from ottla.storage.log.segment import Segment
from ottla.storage.log.transaction_index import AbortedTransaction, decode_transactions, encode_transactions


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
