"""The application's polls: how far apart they are, how long they take, and how long the records in between took.

A poll here is one call that hands out records; the application's work is the time from its end to the beginning of the next.
"""

from math import nan

from ottla.core.client.sensors import Sensor


class PollMeter:
    """The polls of one consumer. `began_ms`: when the last one began, None before it; `batch_records`: what the last one handed out."""

    def __init__(self, now_ms: float) -> None:
        self.began_ms: float | None = None
        self._ended_ms: float | None = None
        self.batch_records = self._taken = 0
        self.intervals = Sensor(now_ms)
        self._in_poll = Sensor(now_ms)
        self._working = Sensor(now_ms)
        self._processing = Sensor(now_ms)
        self._records = Sensor(now_ms)

    def began(self, now_ms: float) -> None:
        """The application calls poll: what it got before is processed. Until `ended`, further calls are the same poll."""
        if self.began_ms is not None and self._ended_ms is None:
            return
        if self.began_ms is not None:
            self.intervals.record(now_ms - self.began_ms, now_ms)
        if self._ended_ms is not None:
            work_ms = now_ms - self._ended_ms
            self._working.record(work_ms, now_ms)
            if self._taken:
                self._processing.record(work_ms, now_ms)
                self._records.record(self._taken, now_ms)
        self.began_ms, self._ended_ms, self._taken = now_ms, None, 0

    def took(self, records: int) -> None:
        """The poll hands out so many records; after its end: so many were taken one at a time, by short polls that are not reported."""
        self._taken += records
        if records and self._ended_ms is not None:
            self.batch_records = 1

    def ended(self, now_ms: float) -> None:
        """The poll returns."""
        if self.began_ms is not None:
            self._in_poll.record(now_ms - self.began_ms, now_ms)
        self._ended_ms, self.batch_records = now_ms, self._taken

    def record_ms(self, now_ms: float) -> float | None:
        """What the application needed for each record of late, the batch that it works on left out; None without one."""
        records = self._records.sum(now_ms)
        return self._processing.sum(now_ms) / records if records else None

    def idle_ratio(self, now_ms: float) -> float:
        """The part of its time that the application spent in poll of late, from 0 to 1; NaN before the second poll."""
        idle_ms, work_ms = self._in_poll.sum(now_ms), self._working.sum(now_ms)
        return idle_ms / (idle_ms + work_ms) if idle_ms + work_ms else nan
