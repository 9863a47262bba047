"""Reads one partition for a Fetch: its records, or the error; and looks up offsets by timestamp, for ListOffsets.

This module decides up to which offset a client may read (the high watermark, or the last stable offset), whether the client's leader
epochs agree with the log, and which aborted transactions the response lists. It parses no records, and batch headers only where
transactions were aborted. Source: KIP-98, KIP-320, KIP-595, Kafka's `Partition` and `UnifiedLog`.

Lookups by timestamp are in worker threads, because batches must be read and decompressed for them. A request's lookups go to the threads a
few at a time, so that a request with thousands of them does not block others.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from struct import Struct
from typing import TYPE_CHECKING, Final, NamedTuple

from ottla.broker.fetch.messages import FetchedPartition, FetchPartitionData
from ottla.log.timestamp_lookup import Found, TimestampLookup
from ottla.protocol.errors import ErrorCode, StorageError
from ottla.protocol.records.record_checks import FindTimestamp
from ottla.protocol.wire.primitives import Buffer

if TYPE_CHECKING:
    from ottla.log.index import AbortedTransaction
    from ottla.log.partition_log import PartitionLog

_LENGTH: Final = Struct(">qi")
_LAST_DELTA: Final = Struct(">i")
_LAST_DELTA_AT: Final = 23
_LENGTH_OVERHEAD_BYTES: Final = 12

PER_JOB: Final = 8
_THREADS: Final = 2


def read_partition(
    part: FetchedPartition, log: "PartitionLog", bytes_max: int, *, at_least_one: bool, committed_only: bool, wait: bool
) -> FetchPartitionData:
    """Read what the log has for `part`, at most `bytes_max` bytes, but with `at_least_one` its first batch in any case.

    Raises ColdRead, unless `wait`, when the records are not in memory, and StorageError.
    """
    error = leader_epoch_error(part.current_leader_epoch, log.leader_epoch)
    if error is not ErrorCode.NONE:
        return FetchPartitionData(part, error)
    high_watermark, stable, start, offset = log.high_watermark, log.last_stable_offset, log.log_start_offset, part.offset
    found = FetchPartitionData(part, ErrorCode.NONE, high_watermark, stable, start, () if committed_only else None)
    if part.last_fetched_epoch >= 0:
        ends = log.end_offset_for_epoch(part.last_fetched_epoch)
        if ends.epoch < 0 or ends.end_offset < 0 or offset < start:
            return FetchPartitionData(part, ErrorCode.OFFSET_OUT_OF_RANGE)
        if ends.epoch < part.last_fetched_epoch or ends.end_offset < offset:
            found.diverging = ends
            return found
    if not start <= offset <= log.log_end_offset:
        return FetchPartitionData(part, ErrorCode.OFFSET_OUT_OF_RANGE)
    end = visible_end(log, committed_only)
    if offset < end and (bytes_max > 0 or at_least_one):
        found.records = log.read(offset, bytes_max, at_least_one=at_least_one, wait=wait, end_offset=end) or b""
        if committed_only and found.records:
            found.aborted = _aborted(log, offset, end, found.records)
    return found


def visible_end(log: "PartitionLog", committed_only: bool) -> int:
    """The offset below which a client may read."""
    return log.last_stable_offset if committed_only else log.high_watermark


def has_no_news(part: FetchedPartition, log: "PartitionLog") -> bool:
    """Whether an incremental response leaves a partition out unread: its reader is at the end, and has all its offsets."""
    return (
        part.offset == part.high_watermark == log.high_watermark
        and part.log_start_offset == log.log_start_offset
        and part.last_fetched_epoch < 0
        and part.current_leader_epoch in (-1, log.leader_epoch)
    )


def leader_epoch_error(requested: int, current: int) -> ErrorCode:
    """Compare a client's leader epoch (-1: none) with the current one (KIP-320)."""
    if requested == current or requested < 0:
        return ErrorCode.NONE
    return ErrorCode.FENCED_LEADER_EPOCH if requested < current else ErrorCode.UNKNOWN_LEADER_EPOCH


def _aborted(log: "PartitionLog", offset: int, end: int, records: Buffer) -> "Sequence[AbortedTransaction]":
    """The aborted transactions with records in what was read. Most logs have none, and the records are not parsed."""
    aborted = log.aborted_transactions(offset, end)
    if not aborted:
        return ()
    end = next_offset(records)
    return [transaction for transaction in aborted if transaction.first_offset < end]


def next_offset(records: Buffer) -> int:
    """The offset after `records`, which are whole batches, at least one."""
    at = last = 0
    while at < len(records):
        last = at
        at += _LENGTH.unpack_from(records, at)[1] + _LENGTH_OVERHEAD_BYTES
    base_offset = _LENGTH.unpack_from(records, last)[0]
    return int(base_offset + _LAST_DELTA.unpack_from(records, last + _LAST_DELTA_AT)[0] + 1)


class TimestampQuery(NamedTuple):
    """One lookup in one log. `timestamp_ms`: None for the largest one."""

    lookup: TimestampLookup
    timestamp_ms: int | None


class TimestampLookups:
    """One for all brokers of a loop. `executor`: for tests."""

    def __init__(self, find: FindTimestamp, executor: Executor | None = None) -> None:
        self._find = find
        self._executor = executor or ThreadPoolExecutor(_THREADS, thread_name_prefix="ottla-timestamps")

    async def look_up(self, queries: Sequence[TimestampQuery]) -> list[Found | StorageError | None]:
        """The result of each lookup, in order; a StorageError is returned, not raised."""
        found: list[Found | StorageError | None] = []
        for start in range(0, len(queries), PER_JOB):
            job = queries[start : start + PER_JOB]
            found += await asyncio.get_running_loop().run_in_executor(self._executor, self._look_up, job)
        return found

    def _look_up(self, job: Sequence[TimestampQuery]) -> list[Found | StorageError | None]:
        return [self._one(*query) for query in job]

    def _one(self, lookup: TimestampLookup, timestamp_ms: int | None) -> Found | StorageError | None:
        try:
            return lookup.latest(self._find) if timestamp_ms is None else lookup.first_at(timestamp_ms, self._find)
        except StorageError as error:
            return error

    def close(self) -> None:
        """Wait until the worker threads have ended; lookups that have not begun are cancelled."""
        self._executor.shutdown(wait=True, cancel_futures=True)
