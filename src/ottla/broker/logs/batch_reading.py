"""Reads the records of clients' batches where a topic requires it: a few bytes at once, on the loop, all others in a worker thread.

A compressed batch of a few kilobytes may hold 128 MiB of records, so that what counts is the decompressed size. There is one worker thread:
however many clients send such batches, the memory of one of them is taken at a time. Nothing is appended here.
"""

import asyncio
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Final

from ottla.core.records.record_checks import CheckRecords
from ottla.storage.log.client_batch import Accepted, UnreadBatch
from ottla.storage.log.validation import LogRefusal

LOOP_BYTES_MAX: Final = 32 * 1024
"""So many decompressed bytes are read in one iteration of the event loop: some 10 ms for the smallest records."""
ABANDONED_BYTES_MAX: Final = 64 * 1024 * 1024
"""Batches of clients that have disconnected are still appended, unless more bytes than this wait to be read."""


class BatchReading:
    """One for all brokers of a loop. `executor`: for tests."""

    def __init__(self, check: CheckRecords, executor: Executor | None = None) -> None:
        self._check = check
        self._executor = executor or ThreadPoolExecutor(1, thread_name_prefix="ottla-records")
        self._left = LOOP_BYTES_MAX
        self.waiting_bytes = 0

    def read_now(self, unread: UnreadBatch) -> Accepted | LogRefusal | None:
        """The batch as it may be stored; None when it is too large to be read on the loop."""
        left = self._left
        section = unread.decompress(bytes_max=left) if len(unread.batch) <= left else None
        if section is None:
            return None
        if left == LOOP_BYTES_MAX:
            asyncio.get_running_loop().call_soon(self._begin_iteration)
        if not isinstance(section, LogRefusal):
            self._left -= len(section)
        return unread.read(section)

    def _begin_iteration(self) -> None:
        self._left = LOOP_BYTES_MAX

    async def read(self, unread: UnreadBatch) -> Accepted | LogRefusal:
        """The batch as it may be stored, read in the worker thread. `unread` has bytes of its own."""
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._read, unread)

    def _read(self, unread: UnreadBatch) -> Accepted | LogRefusal:
        return unread.read(check=self._check)

    def close(self) -> None:
        """Return when the worker thread has ended; batches that wait are not read."""
        self._executor.shutdown(wait=True, cancel_futures=True)
