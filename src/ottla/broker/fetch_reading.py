"""What a Fetch gets of one partition: its records, or why there are none.

It decides how far a reader may see (the high watermark, or the last stable offset), whether the reader's idea of the log's epochs is
right, and which aborted transactions it is told of. It parses no records, and batch heads only where transactions were aborted. Source:
KIP-98, KIP-320, KIP-595, Kafka's `Partition` and `UnifiedLog`.
"""

from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from ottla.broker.fetch_sessions import FetchedPartition
from ottla.core.errors import ErrorCode
from ottla.core.wire import Buffer

if TYPE_CHECKING:
    from ottla.storage.leader_epochs import EpochEnd
    from ottla.storage.partition_log import PartitionLog
    from ottla.storage.transaction_index import AbortedTransaction

_LENGTH: Final = Struct(">qi")
_LAST_DELTA: Final = Struct(">i")
_LAST_DELTA_AT: Final = 23
_LENGTH_OVERHEAD_BYTES: Final = 12


class Found:
    """One partition of an answer. `aborted` is None for those who did not ask; `diverging` is where the reader's log leaves ours."""

    __slots__ = ("aborted", "diverging", "error", "high_watermark", "last_stable_offset", "log_start_offset", "part", "records")

    def __init__(
        self,
        part: FetchedPartition,
        error: ErrorCode = ErrorCode.NONE,
        high_watermark: int = -1,
        last_stable_offset: int = -1,
        log_start_offset: int = -1,
        aborted: "Sequence[AbortedTransaction] | None" = None,
    ) -> None:
        self.part = part
        self.error = error
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.aborted = aborted
        self.records: Buffer = b""
        self.diverging: EpochEnd | None = None


def read_partition(
    part: FetchedPartition, log: "PartitionLog", bytes_max: int, *, at_least_one: bool, committed_only: bool, wait: bool
) -> Found:
    """What the log has for `part`, at most `bytes_max` bytes, but with `at_least_one` its first batch in any case.

    Raises ColdRead, unless `wait`, when the records are not in memory, and StorageError.
    """
    error = leader_epoch_error(part.current_leader_epoch, log.leader_epoch)
    if error is not ErrorCode.NONE:
        return Found(part, error)
    high_watermark, stable, start, offset = log.high_watermark, log.last_stable_offset, log.log_start_offset, part.offset
    found = Found(part, ErrorCode.NONE, high_watermark, stable, start, () if committed_only else None)
    if part.last_fetched_epoch >= 0:
        ends = log.end_offset_for_epoch(part.last_fetched_epoch)
        if ends.epoch < 0 or ends.end_offset < 0 or offset < start:
            return Found(part, ErrorCode.OFFSET_OUT_OF_RANGE)
        if ends.epoch < part.last_fetched_epoch or ends.end_offset < offset:
            found.diverging = ends
            return found
    if not start <= offset <= log.log_end_offset:
        return Found(part, ErrorCode.OFFSET_OUT_OF_RANGE)
    end = visible_end(log, committed_only)
    if offset < end and (bytes_max > 0 or at_least_one):
        found.records = log.read(offset, bytes_max, at_least_one=at_least_one, wait=wait, end_offset=end) or b""
        if committed_only and found.records:
            found.aborted = _aborted(log, offset, end, found.records)
    return found


def visible_end(log: "PartitionLog", committed_only: bool) -> int:
    """What lies below may be read."""
    return log.last_stable_offset if committed_only else log.high_watermark


def leader_epoch_error(asked: int, present: int) -> ErrorCode:
    """Whether a client's leader epoch (-1: it does not say) is the present one (KIP-320)."""
    if asked == present or asked < 0:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if asked < present else ErrorCode.UNKNOWN_LEADER_EPOCH


def _aborted(log: "PartitionLog", offset: int, end: int, records: Buffer) -> "Sequence[AbortedTransaction]":
    """The aborted transactions that have records in what was read: most logs have none, and then nothing is looked at twice."""
    aborted = log.aborted_transactions(offset, end)
    if not aborted:
        return ()
    end = next_offset(records)
    return [transaction for transaction in aborted if transaction.first_offset < end]


def next_offset(records: Buffer) -> int:
    """The offset behind whole batches, of which there is one at least."""
    at = last = 0
    while at < len(records):
        last = at
        at += _LENGTH.unpack_from(records, at)[1] + _LENGTH_OVERHEAD_BYTES
    base_offset = _LENGTH.unpack_from(records, last)[0]
    return int(base_offset + _LAST_DELTA.unpack_from(records, last + _LAST_DELTA_AT)[0] + 1)
