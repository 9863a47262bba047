"""What the cleaner did since the broker's start, and in its last cleaning. As Kafka's CleanerStats."""

from dataclasses import dataclass

from ottla.storage.cleaner.cleaning import Cleaned


@dataclass(slots=True)
class CleanerStats:
    """recopy_ratio: bytes written for each byte read in the last cleaning. buffer_ratio: how full its offset map was at most.

    last_clean_ms: how long it took. cleaned_ms: when it ended; None when there was none.
    """

    cleanings: int = 0
    read_bytes: int = 0
    written_bytes: int = 0
    recopy_ratio: float = 0.0
    buffer_ratio: float = 0.0
    last_clean_ms: int = 0
    cleaned_ms: int | None = None

    def add(self, done: Cleaned, *, start_ms: int, end_ms: int) -> None:
        """Add a cleaning; one that was stopped counts for the bytes only."""
        self.read_bytes += done.indexed_bytes + done.read_bytes
        self.written_bytes += done.written_bytes
        if not done.is_complete:
            return
        self.cleanings += 1
        self.recopy_ratio = done.written_bytes / done.read_bytes if done.read_bytes else 0.0
        self.buffer_ratio = done.map_utilization
        self.last_clean_ms = max(0, end_ms - start_ms)
        self.cleaned_ms = end_ms
