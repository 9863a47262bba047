"""The records of a log that count: all but those of transactions that were aborted or have not ended.

Group coordinators load by it: offsets that were committed within a transaction (TxnOffsetCommit, 28) count only when it was committed.
It decides nothing about what the records mean.
"""

from collections.abc import Iterator

from ottla.core.errors import PeerError, StorageError
from ottla.core.model import Record
from ottla.core.records.batch import BatchHeader
from ottla.core.records.control import ControlType, control_type
from ottla.storage.partition_log import PartitionLog
from ottla.storage.transaction_index import AbortedTransaction


def committed_records(log: PartitionLog) -> Iterator[Record]:
    """From the log's start to its end, by offset. Raises StorageError where the log is damaged."""
    start, stable, end = log.log_start_offset, log.last_stable_offset, log.log_end_offset
    aborted = log.aborted_transactions(start, end) if end > start else []
    behind: list[tuple[BatchHeader, list[Record]]] = []  # from the first open transaction on: others may have ended there
    for header, records in log.read_batches(start):
        if header.base_offset >= stable:
            behind.append((header, records))
        elif not header.is_control and not (header.is_transactional and _is_within(aborted, header)):
            yield from records
    commits = {}
    for header, records in behind:
        if header.is_control and _is_commit(records[0]):
            commits[header.producer_id] = header.base_offset
    for header, records in behind:
        has_ended = not header.is_transactional or commits.get(header.producer_id, -1) > header.base_offset
        if not header.is_control and has_ended and not (header.is_transactional and _is_within(aborted, header)):
            yield from records


def _is_within(aborted: list[AbortedTransaction], header: BatchHeader) -> bool:
    return any(each.producer_id == header.producer_id and each.first_offset <= header.base_offset < each.last_offset for each in aborted)


def _is_commit(record: Record) -> bool:
    try:
        return control_type(record.key) == ControlType.COMMIT
    except PeerError as error:
        raise StorageError(f"the transaction marker at offset {record.offset} cannot be read") from error
