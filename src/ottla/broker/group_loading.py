"""Loading a coordinator's log: which batches count, in the order of the log, folded by a lane into what the coordinator will know.

All records count but those of transactions that were aborted or have not ended: offsets that were committed within a transaction
(TxnOffsetCommit, 28) count only when it was committed, and then by their own place in the log. What the records come to, the lane decides.
"""

import gc
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final

from ottla.core.errors import PeerError
from ottla.core.groups.log_fold import Buffer, Fold, Lane, LoadedGroups, Piece
from ottla.core.records.batch import BatchHeader, decode_batch, read_header
from ottla.core.records.control import ControlType, control_type
from ottla.storage.log_reading import LogReading, damaged
from ottla.storage.partition_log import PartitionLog


def load_groups(log: PartitionLog, lane: Lane) -> LoadedGroups:
    """All that a coordinator's log comes to. Raises StorageError where the log is damaged or cannot be read.

    Any thread, while nobody appends to the log; the cleaner may go on with it.
    """
    with COLLECTOR_REST.taken(), log.reading() as reading:
        fold = lane()
        transactions = _Transactions(reading, _commits(reading, fold))
        for name, buffer, piece in reading.pieces(fold.survey):
            skipped = {at for at, header in _special(buffer, piece) if not transactions.count(header)}
            try:
                fold.take(piece, skipped=skipped, from_offset=reading.log_start_offset)
            except PeerError as error:
                raise damaged(name, error) from error
        return fold.finish()


class CollectorRest:
    """A rest for Python's cyclic garbage collector, in the whole process, while a million objects are made that are no garbage.

    It would go through all of them again and again as they become more: that takes longer than making them. Reference counting goes on.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._takers = 0
        self._was_enabled = False

    @contextmanager
    def taken(self) -> Iterator[None]:
        """The collector rests until the last one who is in here leaves; then it is as it was. Any thread."""
        with self._lock:
            if not self._takers:
                self._was_enabled = gc.isenabled()
                gc.disable()
            self._takers += 1
        try:
            yield
        finally:
            with self._lock:
                self._takers -= 1
                if not self._takers and self._was_enabled:
                    gc.enable()


COLLECTOR_REST: Final = CollectorRest()
"""The one of this process. Whoever loads many logs takes it around all of them."""


class _Transactions:
    """Which of a log's transactions were committed."""

    def __init__(self, reading: LogReading, commits: dict[int, int]) -> None:
        self._stable = reading.last_stable_offset
        self._commits = commits
        self._aborted: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for each in reading.aborted:
            self._aborted[each.producer_id].append((each.first_offset, each.last_offset))

    def count(self, header: BatchHeader) -> bool:
        """Whether the records of a batch do. Below the last stable offset, what was not aborted was committed."""
        if header.is_control:
            return False
        if not header.is_transactional:
            return True
        offset = header.base_offset
        has_ended = offset < self._stable or self._commits.get(header.producer_id, -1) > offset
        return has_ended and not any(first <= offset < marker for first, marker in self._aborted.get(header.producer_id, ()))


def _commits(reading: LogReading, fold: Fold) -> dict[int, int]:
    """Where the last commit of each producer lies, from the first open transaction on: others may have ended behind it."""
    found: dict[int, int] = {}
    if reading.last_stable_offset == reading.log_end_offset:
        return found
    for name, buffer, piece in reading.pieces(fold.survey, reading.last_stable_offset):
        for at, header in _special(buffer, piece):
            if header.is_control and header.base_offset >= reading.last_stable_offset and _is_commit(name, buffer, at):
                found[header.producer_id] = header.base_offset
    return found


def _special(buffer: Buffer, piece: Piece) -> list[tuple[int, BatchHeader]]:
    return [(at, read_header(buffer, at)) for at in piece.special]


def _is_commit(name: str, buffer: Buffer, at: int) -> bool:
    try:
        # A cleaning may leave a marker's batch without the marker.
        return any(control_type(record.key) == ControlType.COMMIT for record in decode_batch(buffer, at, verify_crc=False))
    except PeerError as error:
        raise damaged(name, error) from error
