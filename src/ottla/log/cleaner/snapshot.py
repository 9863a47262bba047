"""The log cleaner's figures as one frozen snapshot, which any thread may read."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from ottla.log.cleaner.health import CleanerFacts, CleanerState, PartitionFault
from ottla.protocol.model import TopicPartition


class CleaningSnapshot(NamedTuple):
    """How dirty a compacted partition is. `due_since_ms`: since when it could be cleaned; None when it need not be.

    `cleaned_ms`: when this broker last cleaned it; None when it did not.
    """

    dirty_bytes: int
    cleanable_bytes: int
    dirty_ratio: float
    due_since_ms: int | None
    cleaned_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class CleanerSnapshot:
    """The cleaner. Times in ms since 1970. `at_work`: the partitions that are being cleaned. Totals count since the broker's start.

    recopy_ratio: bytes written for each byte read in the last cleaning. buffer_ratio: how full the table of keys was in it.
    max_compaction_delay_ms: by how much the oldest dirty record is older than max.compaction.lag.ms, at most, at the last check.
    """

    is_enabled: bool
    threads: int = 0
    dead_threads: int = 0
    backoff_ms: int = 0
    at_work: tuple[TopicPartition, ...] = ()
    looked_ms: int | None = None
    cleaned_ms: int | None = None
    cleanings: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    recopy_ratio: float = 0.0
    buffer_ratio: float = 0.0
    last_clean_ms: int = 0
    max_compaction_delay_ms: int = 0
    max_dirty_ratio: float = 0.0
    uncleanable: tuple[PartitionFault, ...] = ()
    uncleanable_bytes: int = 0
    partitions: Mapping[TopicPartition, CleaningSnapshot] = field(default_factory=dict)

    @property
    def state(self) -> CleanerState:
        """Whether it is off, running or dead."""
        if not self.is_enabled:
            return CleanerState.OFF
        return CleanerState.DEAD if self.threads and self.dead_threads >= self.threads else CleanerState.RUNNING

    def facts(self, now_ms: int) -> CleanerFacts:
        """The facts from which findings are made."""
        is_idle = self.looked_ms is not None and not self.at_work
        return CleanerFacts(
            state=self.state,
            threads=self.threads,
            dead_threads=self.dead_threads,
            backoff_ms=self.backoff_ms,
            idle_ms=max(0, now_ms - self.looked_ms) if is_idle and self.looked_ms is not None else 0,
            since_cleaned_ms=None if self.cleaned_ms is None else max(0, now_ms - self.cleaned_ms),
        )
