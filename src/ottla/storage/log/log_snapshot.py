"""A snapshot of a partition's log for the cleaner, taken by the thread that owns the log, for any thread to use.

Segments in it may be gone when a cleaning ends, and `PartitionLog.swap_segments` refuses then.
"""

from collections.abc import Mapping
from typing import NamedTuple

from ottla.storage.log.settings import LogSettings
from ottla.storage.log.transaction_index import AbortedTransaction


class SegmentView(NamedTuple):
    """A segment that takes no more batches. `path` lacks the suffixes (`.log`, ...); `next_base_offset` is where the one after it begins.

    `largest_timestamp_ms`: -1 when no record has one. `offset_index_bytes`, `time_index_bytes`: what its index files hold.
    """

    base_offset: int
    next_base_offset: int
    size_bytes: int
    path: str
    largest_timestamp_ms: int
    offset_index_bytes: int
    time_index_bytes: int


class ProducerEnd(NamedTuple):
    """Where a live producer stands: the last offset it wrote, -1 when only a marker of it is known."""

    epoch: int
    last_offset: int


class LogSnapshot(NamedTuple):
    """`segments`: those that may be cleaned as far as the log goes: durable, and neither active nor at or above `last_stable_offset`.

    `active_base_offset`: nothing from there on is ever cleaned. `size_bytes`: the whole log's, the active segment's included.
    """

    directory: str
    settings: LogSettings
    log_start_offset: int
    log_end_offset: int
    last_stable_offset: int
    active_base_offset: int
    size_bytes: int
    segments: tuple[SegmentView, ...]
    producers: Mapping[int, ProducerEnd]
    aborted: tuple[AbortedTransaction, ...]
