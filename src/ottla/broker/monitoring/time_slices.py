"""Divides long work on the event loop into slices, between which the loop runs its other tasks."""

import asyncio
import time
from typing import Final

SLICE_S: Final = 0.002


class TimeSlices:
    """The slices of one piece of work. `busy_s`: the time of all slices so far, in seconds."""

    def __init__(self) -> None:
        self.busy_s = 0.0
        self._started_s = time.perf_counter()

    async def pause_if_over(self) -> None:
        """Let the loop run other tasks if the slice is over; else do nothing."""
        if time.perf_counter() - self._started_s >= SLICE_S:
            self.end()
            await asyncio.sleep(0)
            self._started_s = time.perf_counter()

    def end(self) -> None:
        """End the slice: after the last one, no more work follows."""
        self.busy_s += time.perf_counter() - self._started_s
