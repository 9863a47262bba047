"""The state of a log's transactions: control batches as they are appended, and aborted transactions with their index files.

`ProducerStates` checks epochs and sequences of client batches; both together are Kafka's ProducerStateManager.
"""

from collections.abc import Iterable

from ottla.core.errors import PeerError, StorageError
from ottla.core.records.batch import BatchHeader, decode_batch
from ottla.core.records.end_marker import EndMarker, decode_end_marker
from ottla.storage.file_system import Buffer, Files
from ottla.storage.log.aborted_transactions import AbortedTransactions
from ottla.storage.log.durability import Durability
from ottla.storage.log.producer_state import ProducerStates
from ottla.storage.log.segment import Segment
from ottla.storage.log.transaction_index import AbortedTransaction


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
