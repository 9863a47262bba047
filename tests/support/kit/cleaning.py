"""Clean a log in one call, for tests: what the broker's cleaner does with threads and over hours. Times are arguments."""

from collections.abc import Sequence
from functools import partial

from ottla.log.append import Appended, LogRefusal, UnreadBatch
from ottla.log.cleaner.backend import SLOT_BYTES, CleaningBackend, OffsetMap, ReferenceBackend
from ottla.log.cleaner.candidates import assess
from ottla.log.cleaner.cleaning import IO_BUFFER_BYTES, Cleaned, clean, first_timestamp_ms
from ottla.log.file_system import Files
from ottla.log.partition_log import PartitionLog
from ottla.protocol.model import Record


def clean_now(
    files: Files,
    log: PartitionLog,
    *,
    now_ms: int,
    checkpoint: int | None = None,
    backend: CleaningBackend | None = None,
    slots: int = 1000,
    io_buffer_bytes: int = IO_BUFFER_BYTES,
) -> Cleaned:
    """Clean all of the log that can be cleaned, due or not; `checkpoint` is where the last cleaning ended. What was replaced is removed."""
    view = log.snapshot()
    found = assess(view, checkpoint, now_ms, first_timestamp_ms=partial(first_timestamp_ms, files))

    def swap(base_offset: int, replaced: Sequence[int]) -> bool:
        deleted = log.swap_segments(base_offset, replaced)
        if deleted is None:
            return False
        files.sync_directory(log.directory)
        for path in deleted:
            files.remove(path)
        return True

    return clean(
        files,
        view,
        first_dirty_offset=found.first_dirty_offset,
        first_uncleanable_offset=found.first_uncleanable_offset,
        backend=backend or ReferenceBackend(),
        offset_map=OffsetMap(SLOT_BYTES * slots),
        now_ms=now_ms,
        swap=swap,
        io_buffer_bytes=io_buffer_bytes,
    )


def append_from_client(log: PartitionLog, batch: bytearray, *, now_ms: int) -> Appended | LogRefusal:
    """Append a client's batch, whose records are read here if need be, as those of a compacted topic are."""
    outcome = log.append(batch, now_ms=now_ms)
    while isinstance(outcome, UnreadBatch):
        outcome = log.append_read(outcome, outcome.read(), now_ms=now_ms)
    return outcome


def records(log: PartitionLog) -> list[Record]:
    """Every record of the log, markers too."""
    return [record for _, batch in log.read_batches(log.log_start_offset) for record in batch]
