"""A fetch that waits for records at the end of partitions (Kafka's `DelayedFetch`): tried again when one grows, and when its time is up.

What it tries is a callback.
"""

import asyncio
from collections.abc import Callable, Sequence

from ottla.broker.logs.partition import Partition


class DelayedFetch:
    """Calls `try_again(False)` in the loop iteration after a partition grew, until it returns True; `try_again(True)` at the end."""

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
        self._timer = loop.call_later(wait_s, self._expire)

    def _grew(self) -> None:
        # Several partitions often grow in one request: try once, after all of them, and after the producer has its response.
        if not self._scheduled:
            self._scheduled = True
            self._loop.call_soon(self._try)

    def _try(self) -> None:
        self._scheduled = False
        if not self._done and self._try_again(False):
            self.cancel()

    def _expire(self) -> None:
        if not self._done:
            self.cancel()
            self._try_again(True)

    def cancel(self) -> None:
        """Stop waiting: remove the timer, and the callbacks from the partitions."""
        self._done = True
        self._timer.cancel()
        for partition in self._partitions:
            partition.waiters.discard(self._wake)
