"""Loads a coordinator's log: selects the batches that count, and gives them to a reducer in the order of the log.

Records of transactions that were aborted or have not ended do not count: offsets that were committed within a transaction (TxnOffsetCommit,
28) count when the transaction was committed, at their own place in the log.
"""

import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.groups.log.reducer import Buffer, LoadedGroups, Reducer, ReducerFactory, ScannedBatches
from ottla.core.records.batch import BatchHeader, decode_batch, read_header
from ottla.core.records.control import ControlType, control_type
from ottla.storage.log.log_reading import LogReading, damaged
from ottla.storage.log.partition_log import PartitionLog


def load_groups(log: PartitionLog, backend: ReducerFactory) -> LoadedGroups:
    """Reduce a coordinator's log to groups and offsets. Raises StorageError where the log is damaged or cannot be read.

    Any thread, while no records are appended to the log; the cleaner may run.
    """
    with GC_PAUSE.held(), log.reading() as reading:
        reducer = backend()
        transactions = _Transactions(reading, _commits(reading, reducer))
        for name, buffer, piece in reading.pieces(reducer.scan):
            skipped = {at for at, header in _special(buffer, piece) if not transactions.counts(header)}
            try:
                reducer.apply(piece, skipped=skipped, from_offset=reading.log_start_offset)
            except PeerError as error:
                raise damaged(name, error) from error
        return reducer.finish()


class GcPause:
    """Pauses Python's cyclic garbage collector, in the whole process, while a million objects are created that are no garbage.

    The collector would traverse all of them again and again as they grow in number, which takes longer than creating them. Reference
    counting continues.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._holders = 0
        self._was_enabled = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Pause the collector until the last holder leaves; then it is enabled if it was before. Any thread."""
        with self._lock:
            if not self._holders:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._holders += 1
        try:
            yield
        finally:
            with self._lock:
                self._holders -= 1
                if not self._holders and self._was_enabled:
                    gc.enable()


GC_PAUSE: Final = GcPause()
"""The one of this process. A caller that loads many logs holds it around all of them."""


class _Transactions:
    """Which of a log's transactions were committed."""

    def __init__(self, reading: LogReading, commits: dict[int, int]) -> None:
        self._stable = reading.last_stable_offset
        self._commits = commits
        self._aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for each in reading.aborted:
            self._aborted[each.producer_id].append((each.first_offset, each.last_offset))

    def counts(self, header: BatchHeader) -> bool:
        """Whether the records of a batch count. Below the last stable offset, a transaction that was not aborted was committed."""
        if header.is_control:
            return False
        if not header.is_transactional:
            return True
        offset = header.base_offset
        has_ended = offset < self._stable or self._commits.get(header.producer_id, -1) > offset
        return has_ended and not any(first <= offset < marker for first, marker in self._aborted.get(header.producer_id, ()))


def _commits(reading: LogReading, reducer: Reducer) -> dict[int, int]:
    """The offset of each producer's last commit, from the first open transaction on: others may have ended behind it."""
    found: dict[int, int] = {}
    if reading.last_stable_offset == reading.log_end_offset:
        return found
    for name, buffer, piece in reading.pieces(reducer.scan, reading.last_stable_offset):
        for at, header in _special(buffer, piece):
            if header.is_control and header.base_offset >= reading.last_stable_offset and _is_commit(name, buffer, at):
                found[header.producer_id] = header.base_offset
    return found


def _special(buffer: Buffer, piece: ScannedBatches) -> list[tuple[int, BatchHeader]]:
    return [(at, read_header(buffer, at)) for at in piece.special]


def _is_commit(name: str, buffer: Buffer, at: int) -> bool:
    try:
        # A cleaning may leave a marker's batch without the marker.
        return any(control_type(record.key) == ControlType.COMMIT for record in decode_batch(buffer, at, verify_crc=False))
    except PeerError as error:
        raise damaged(name, error) from error
