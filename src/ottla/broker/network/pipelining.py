"""Connections that send many requests at once: the time that all of them together take of one iteration of the event loop is bounded.

The first request of a read is handled at once. The next ones too, until the iteration's time is up; the rest is handled in the next
iterations, round robin over the connections. So thousands of pipelined requests delay the others by some milliseconds, not by seconds.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final, Protocol

from ottla.broker.clock import monotonic_s

ITERATION_S: Final = 0.010
"""Time of pipelined requests in one iteration; the last one may exceed it."""
UNCHECKED_MAX: Final = 16
"""Requests between two reads of the clock: a read costs some hundredth of what a small request does."""
SHARE_S: Final = 0.001
"""Time of one connection before the next one continues."""


class Pipelined(Protocol):
    """A connection with requests that arrived together."""

    def continue_frames(self) -> None:
        """Handle at least one, and more while `Pipelining.may_continue`."""


class Pipelining:
    """One for all connections of a loop. `now_s` must advance within an iteration."""

    __slots__ = ("_deferred", "_is_set", "_now_s", "_share_end_s", "_time_end_s", "_unchecked")

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._deferred: deque[Pipelined] = deque()
        self._is_set = False
        self._time_end_s = self._share_end_s = 0.0
        self._unchecked = 0

    def may_continue(self) -> bool:
        """Whether a connection may handle one more request in this iteration."""
        self._unchecked += 1
        if self._unchecked < UNCHECKED_MAX:
            return True
        now_s = self._now_s()
        if not self._is_set:
            self._begin_iteration(now_s)
        if now_s >= self._share_end_s:
            return False  # and the next request reads the clock again
        self._unchecked = 0
        return True

    def defer(self, connection: Pipelined) -> None:
        """Call its `continue_frames` in one of the next iterations. It is deferred once at a time."""
        self._deferred.append(connection)
        if not self._is_set:
            self._begin_iteration(self._now_s())

    def _begin_iteration(self, now_s: float) -> None:
        self._is_set = True
        self._time_end_s = self._share_end_s = now_s + ITERATION_S
        asyncio.get_running_loop().call_soon(self._next_iteration)

    def _next_iteration(self) -> None:
        self._is_set = False
        if not self._deferred:
            return
        self._begin_iteration(self._now_s())
        for _ in range(len(self._deferred)):
            connection = self._deferred.popleft()
            self._share_end_s = min(self._time_end_s, self._now_s() + SHARE_S)
            self._unchecked = 0
            connection.continue_frames()
            if self._now_s() >= self._time_end_s:
                break
        self._share_end_s = self._time_end_s
