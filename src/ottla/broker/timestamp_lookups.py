"""Offsets by timestamp, for ListOffsets: looked up in worker threads, because batches must be read and decompressed for that.

A request's lookups go to the threads a few at a time, so that one with thousands of them does not keep out the others.
"""

import asyncio
from collections.abc import Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final, NamedTuple

from ottla.core.errors import StorageError
from ottla.core.records.record_checks import FindTimestamp
from ottla.storage.timestamp_lookup import Found, TimestampLookup

PER_JOB: Final = 8
_THREADS: Final = 2


class Wanted(NamedTuple):
    """What is looked up in one log. `timestamp_ms`: None for the largest one."""

    lookup: TimestampLookup
    timestamp_ms: int | None


class TimestampLookups:
    """One for all brokers of a loop. `executor`: for tests."""

    def __init__(self, find: FindTimestamp, executor: Executor | None = None) -> None:
        self._find = find
        self._executor = executor or ThreadPoolExecutor(_THREADS, thread_name_prefix="ottla-timestamps")

    async def look_up(self, wanted: Sequence[Wanted]) -> list[Found | StorageError | None]:
        """What each finds, in their order; a StorageError is given, not raised."""
        found: list[Found | StorageError | None] = []
        for start in range(0, len(wanted), PER_JOB):
            job = wanted[start : start + PER_JOB]
            found += await asyncio.get_running_loop().run_in_executor(self._executor, self._look_up, job)
        return found

    def _look_up(self, job: Sequence[Wanted]) -> list[Found | StorageError | None]:
        return [self._one(*wanted) for wanted in job]

    def _one(self, lookup: TimestampLookup, timestamp_ms: int | None) -> Found | StorageError | None:
        try:
            return lookup.latest(self._find) if timestamp_ms is None else lookup.first_at(timestamp_ms, self._find)
        except StorageError as error:
            return error

    def close(self) -> None:
        """Returns when the worker threads have ended; what waits for them is not looked up any more."""
        self._executor.shutdown(wait=True, cancel_futures=True)
