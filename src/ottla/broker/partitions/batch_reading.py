"""Reads the records of clients' batches where a topic requires it: a few bytes at once, on the loop, all others in a worker thread.

A compressed batch of a few kilobytes may hold 128 MiB of records, so that what counts is the decompressed size. There is one worker
thread: however many clients send such batches, the memory of one of them is taken at a time. Nothing is appended here.

Many bytes are read by the compiled implementation where it is installed, all others by the reference; both give the same findings. NumPy
and Numba are loaded only for many bytes, by the thread that calls. The compiled one reads compressed records while another thread
decompresses them, so that memory never holds all of them.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Final

from ottla.broker.compiled_code import CompiledCode, Start, start_process
from ottla.log.append import Accepted, LogRefusal, UnreadBatch
from ottla.log.inflating import Inflating
from ottla.protocol.records import record_checks as reference
from ottla.protocol.records.batch import DECOMPRESSED_BYTES_MAX, BatchHeader
from ottla.protocol.records.compression import NONE, STREAMED, Compressed, Inflated, inflate
from ottla.protocol.records.record_checks import CheckRecords, Checks, Findings, Section

if TYPE_CHECKING:
    from ottla.log.compiled.record_checks import SectionWindow


COMPILED_BYTES_MIN: Final = 2 << 20
"""Fewer bytes of records are read by the reference implementation before the compiled code is only loaded."""


class RecordCheckBackend:
    """`check` is a CheckRecords, `find` a FindTimestamp."""

    def __init__(self, start: Start = start_process) -> None:
        self._code = CompiledCode("ottla.log.compiled.record_checks", "ottla.log.compiled.record_checks", start)

    def check(self, section: Section, header: BatchHeader, checks: Checks) -> Findings:
        """Check the records of a client's batch."""
        section = _decompressed_if_small(section)
        if _is_small(section) or not self._code.is_compiled():
            return reference.check_records(section, header, checks)
        from ottla.log.compiled.record_checks import check_records

        with _window(section) as window:
            return check_records(window, header, checks)

    def find(self, section: Section, header: BatchHeader, timestamp_ms: int, from_offset: int) -> tuple[int, int] | None:
        """Find the first record at or after a timestamp and an offset."""
        section = _decompressed_if_small(section)
        if _is_small(section) or not self._code.is_compiled():
            return reference.find_timestamp(section, header, timestamp_ms, from_offset)
        from ottla.log.compiled.record_checks import find_timestamp

        with _window(section) as window:
            return find_timestamp(window, header, timestamp_ms, from_offset)

    def close(self) -> None:
        """Stop the process that compiles, if there is one."""
        self._code.close()


def _decompressed_if_small(section: Section) -> Section:
    if not isinstance(section, Compressed):
        return section
    output = inflate(section.codec, section.data, output_bytes_max=COMPILED_BYTES_MIN - 1)
    return section if output is None else output


def _is_small(section: Section) -> bool:
    return not isinstance(section, Compressed) and len(section) < COMPILED_BYTES_MIN


@contextmanager
def _window(section: Section) -> "Iterator[SectionWindow]":
    from ottla.log.compiled.record_checks import SectionWindow

    with ExitStack() as stack:
        if isinstance(section, Compressed) and section.codec in STREAMED:
            try:
                source = stack.enter_context(Inflating(section, output_bytes_max=DECOMPRESSED_BYTES_MAX))
            except OSError:  # no descriptor is free; it can be read all the same
                pass
            else:
                yield SectionWindow(source.read_into, DECOMPRESSED_BYTES_MAX)
                return
        yield SectionWindow.whole(_whole(section))


def _whole(section: Section) -> Inflated:
    if not isinstance(section, Compressed):
        return section
    return section.data if section.codec is NONE else section.inflate(DECOMPRESSED_BYTES_MAX)


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
