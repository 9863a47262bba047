"""Looks up offsets by timestamp, for ListOffsets: in worker threads, because batches must be read and decompressed for that.

A request's lookups go to the threads a few at a time, so that a request with thousands of them does not block others.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, NamedTuple

from ottla.log.timestamp_lookup import Found, TimestampLookup
from ottla.protocol.errors import StorageError
from ottla.protocol.records.record_checks import FindTimestamp

PER_JOB: Final = 8
_THREADS: Final = 2


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
