"""A request that waits at the end of partitions: woken when one grows, answered at the latest when its time is up.

It knows nothing of Fetch: only whom to ask again, and when.
"""

import asyncio
from collections.abc import Callable, Sequence

from ottla.broker.partitions import Partition


class Delayed:
    """Calls `try_again(False)` after a turn of the loop in which a partition grew, until it returns True; `try_again(True)` at the end."""

    __slots__ = ("_done", "_loop", "_partitions", "_scheduled", "_timer", "_try_again", "_wake")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, partitions: Sequence[Partition], try_again: Callable[[bool], bool], wait_s: float
    ) -> None:
        self._loop = loop
        self._partitions = partitions
        self._try_again = try_again
        self._done = self._scheduled = False
        self._wake = self._grew  # one bound method, so that it can be taken out of the sets again
        for partition in partitions:
            partition.waiters.add(self._wake)
        self._timer = loop.call_later(wait_s, self._time_is_up)

    def _grew(self) -> None:
        # Several partitions often grow in one request: look once, after all of them, and after the producer has its answer.
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._look)

    def _look(self) -> None:
        self._scheduled = False
        if not self._done and self._try_again(False):
            self.cancel()

    def _time_is_up(self) -> None:
        if not self._done:
            self.cancel()
            self._try_again(True)

    def cancel(self) -> None:
        """Nobody waits any more."""
        self._done = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.discard(self._wake)
