"""The records of a log that count: those of a transaction when it commits, those of an aborted one never, control records not at all.

For logs that are read without a broker's help: as fetched at isolation level read_uncommitted, or from files. Give it the batches of one
partition in the order of their offsets. Source: KIP-98.
"""

from collections.abc import Iterator
from typing import Final

from ottla.protocol.errors import PeerError
from ottla.protocol.model import Record
from ottla.protocol.records.batch import BatchHeader, iter_batch
from ottla.protocol.records.control import ControlType, decode_end_marker

PENDING_RECORDS_MAX: Final = 1_000_000
"""Records of open transactions that are kept until their marker comes; of more, the oldest transactions are dropped and counted."""


class CommittedRecords:
    """Reads one partition. A record of a transaction is given at the transaction's marker, so offsets may go back there.

    `damaged_batches`: checksum or contents are wrong; records before the damage count. `aborted_records`: of aborted transactions.
    `dropped_records`: of transactions that were too large. `pending_records`: of transactions without a marker yet.
    """

    def __init__(self, *, pending_max: int = PENDING_RECORDS_MAX) -> None:
        self.damaged_batches = 0
        self.aborted_records = 0
        self.dropped_records = 0
        self.pending_records = 0
        self._pending_max = pending_max
        self._pending: dict[int, list[Record]] = {}

    def read(self, batch: bytes | memoryview, header: BatchHeader) -> Iterator[Record]:
        """The records that count from this batch on; `batch` is whole, and its checksum is verified here."""
        try:
            if header.is_control:
                yield from self._end_transaction(batch, header)
            elif header.is_transactional:
                self._keep(iter_batch(batch), header.producer_id)
            else:
                yield from iter_batch(batch)
        except PeerError:
            self.damaged_batches += 1

    def _keep(self, records: Iterator[Record], producer_id: int) -> None:
        pending = self._pending.setdefault(producer_id, [])
        for record in records:
            pending.append(record)
            self.pending_records += 1
        while self.pending_records > self._pending_max:
            oldest = self._pending.pop(next(iter(self._pending)))
            self.pending_records -= len(oldest)
            self.dropped_records += len(oldest)

    def _end_transaction(self, batch: bytes | memoryview, header: BatchHeader) -> Iterator[Record]:
        for control in iter_batch(batch):
            marker = decode_end_marker(control)
            if marker is None:
                continue
            ended = self._pending.pop(header.producer_id, [])
            self.pending_records -= len(ended)
            if marker.type is ControlType.COMMIT:
                yield from ended
            else:
                self.aborted_records += len(ended)
