"""The cleaner's figures: bytes add up, ratios and times are those of the last cleaning that came to its end."""

from ottla.broker.logs.cleaner_stats import CleanerStats
from ottla.storage.cleaner.cleaning import Cleaned


def test_a_cleaning_is_added() -> None:
    stats = CleanerStats()
    stats.add(Cleaned(9, indexed_bytes=10, read_bytes=100, written_bytes=25, map_utilization=0.5), start_ms=1000, end_ms=1500)
    assert stats == CleanerStats(1, 110, 25, 0.25, 0.5, 500, 1500)
    stats.add(Cleaned(9), start_ms=3000, end_ms=2000)  # the clock was set back
    assert stats == CleanerStats(2, 110, 25, 0.0, 0.0, 0, 2000)


def test_one_that_was_stopped_counts_for_its_bytes() -> None:
    stats = CleanerStats()
    stats.add(Cleaned(9, is_complete=False, indexed_bytes=10, read_bytes=100, written_bytes=25), start_ms=1000, end_ms=1500)
    assert stats == CleanerStats(read_bytes=110, written_bytes=25)
