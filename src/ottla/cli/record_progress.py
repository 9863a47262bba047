"""A line on a terminal that says how many records have been read or written."""

import time
from collections.abc import Callable
from typing import Final, TextIO

_CLEAR_LINE: Final = "\r\x1b[K"
_INTERVAL_S: Final = 0.5


class RecordProgress:
    """Counts records and bytes; shows them on `err` at intervals if that is a terminal and `is_shown`."""

    def __init__(self, err: TextIO, *, is_shown: bool = True, clock: Callable[[], float] = time.monotonic) -> None:
        self.records = 0
        self.size_bytes = 0
        self._err = err
        self._is_shown = is_shown and err.isatty()
        self._clock = clock
        self._started_s = self._shown_s = clock()

    def add(self, records: int, size_bytes: int) -> None:
        """Count these."""
        self.records += records
        self.size_bytes += size_bytes
        if self._is_shown and self._clock() - self._shown_s >= _INTERVAL_S:
            self._shown_s = self._clock()
            rate = self.records / max(self._shown_s - self._started_s, 0.001)
            self._err.write(f"{_CLEAR_LINE}{self.records:,} records, {self.size_bytes / 1e6:,.1f} MB, {rate:,.0f} records/s (Ctrl-C ends)")
            self._err.flush()

    def say(self, text: str) -> None:
        """A sentence in a line of its own."""
        self._err.write(f"{_CLEAR_LINE if self._is_shown else ''}{text}\n")
        self._err.flush()

    def end(self) -> None:
        """Remove the line."""
        if self._is_shown:
            self._err.write(_CLEAR_LINE)
            self._err.flush()
