"""Producers and aborted transactions of a log that is opened: from snapshot and transaction indexes, then from batches.

It reads, rewrites and removes `.snapshot` and `.txnindex` files; recovery decides which batches are read again.
"""

from collections.abc import Sequence

from ottla.core.records.batch import BatchHeader
from ottla.storage.file_system import Files
from ottla.storage.log.file_names import SNAPSHOT_SUFFIX, TRANSACTION_INDEX_SUFFIX, file_name, offsets_of
from ottla.storage.log.producer_state import ProducerStates
from ottla.storage.log.segment import Segment
from ottla.storage.log.transaction_index import AbortedTransaction, decode_transactions, encode_transactions
from ottla.storage.log.transaction_state import read_end_marker


class ProducerRecovery:
    """snapshot_offset: `producers` are as they were at this offset, plus the batches added since; -1: without a snapshot."""

    __slots__ = ("_directory", "_files", "aborted", "producers", "snapshot_offset")

    def __init__(self, files: Files, directory: str) -> None:
        self._files = files
        self._directory = directory
        self.clear()

    def clear(self) -> None:
        """Forget everything: all batches must be added again."""
        self.snapshot_offset = -1
        self.producers = ProducerStates()
        self.aborted: list[AbortedTransaction] = []

    def _path(self, offset: int, suffix: str) -> str:
        return f"{self._directory}/{file_name(offset, suffix)}"

    def load_snapshot(self, names: Sequence[str], *, at_most: int | None = None) -> None:
        """Load the newest whole snapshot of these names (at or below offset `at_most`), and remove those above it."""
        self.snapshot_offset, self.producers = -1, ProducerStates()
        for offset in reversed(offsets_of(names, SNAPSHOT_SUFFIX)):
            path = self._path(offset, SNAPSHOT_SUFFIX)
            if at_most is None or offset <= at_most:
                producers = ProducerStates.decode(self._files.read_all(path))
                if producers is not None:
                    self.snapshot_offset, self.producers = offset, producers
                    return
            self._files.remove(path)

    def load_transactions(self, names: Sequence[str]) -> bool:
        """Load the transaction indexes among these names; False when one of them is damaged."""
        for base in offsets_of(names, TRANSACTION_INDEX_SUFFIX):
            aborted = decode_transactions(self._files.read_all(self._path(base, TRANSACTION_INDEX_SUFFIX)))
            if aborted is None:
                return False
            self.aborted += aborted
        return True

    def add(self, segment: Segment, position: int, header: BatchHeader) -> None:
        """Take over a batch of the log, unless the snapshot includes it."""
        if header.producer_id < 0 or header.base_offset < self.snapshot_offset:
            return
        marker = read_end_marker(segment.read_batch(position, header)) if header.is_control else None
        if marker is None:
            self.producers.note(header)
            return
        aborted = self.producers.end_transaction(header, marker)
        known = self.aborted
        if aborted is not None and not (known and known[-1].last_offset >= aborted.last_offset):
            known.append(aborted)

    def end_at(self, segments: Sequence[Segment], scanned: Sequence[Segment], end_offset: int, durable_offset: int) -> None:
        """The log ends at `end_offset`: correct the transaction indexes of the segments that were scanned.

        If the snapshot is newer than that, go back to an older one, and read `segments` from there on.
        """
        self.aborted = [transaction for transaction in self.aborted if transaction.last_offset < end_offset]
        ends = [*(segment.base_offset for segment in scanned[1:]), end_offset]
        for segment, segment_end in zip(scanned, ends):
            self._rewrite_index(segment, segment_end, durable_offset)
        if self.snapshot_offset > end_offset:
            self.load_snapshot(self._files.list(self._directory), at_most=end_offset)
            for segment in segments:
                for position, header in segment.batches():
                    self.add(segment, position, header)

    def _rewrite_index(self, segment: Segment, end_offset: int, durable_offset: int) -> None:
        """Replace a segment's transaction index by what its markers say."""
        path = segment.file(TRANSACTION_INDEX_SUFFIX)
        aborted = [transaction for transaction in self.aborted if segment.base_offset <= transaction.last_offset < end_offset]
        exists = self._files.exists(path)
        if aborted:
            self._files.replace(path, encode_transactions(aborted), sync=segment.base_offset < durable_offset)
        elif exists:
            self._files.remove(path)

    def remove_stray_snapshots(self, bases: Sequence[int]) -> None:
        """Remove the snapshots that are neither the newest nor at the base offset of a segment."""
        used = {*bases, self.snapshot_offset}
        for offset in offsets_of(self._files.list(self._directory), SNAPSHOT_SUFFIX):
            if offset not in used:
                self._files.remove(self._path(offset, SNAPSHOT_SUFFIX))
