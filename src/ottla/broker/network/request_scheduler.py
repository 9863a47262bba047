"""Long requests in steps: the time of one iteration of the event loop for all of them together is bounded (`ITERATION_S`).

A handler that may take long is a generator that yields after each step of at most about a millisecond. A short one ends within the
iteration in which it arrived; the others continue in the next iterations, round robin over the requests, so that a connection with
many or large requests delays others by `ITERATION_S` at most, however many such connections there are.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from ottla.broker.clock import monotonic_s
from ottla.broker.protocol.request import Request

ITERATION_S: Final = 0.010
"""Time of all long requests together in one iteration of the event loop; the last step may exceed it."""
SHARE_S: Final = 0.002
"""Time of one request before the next one continues."""

Work = Generator[None, None, None]
"""The rest of a request: each `next` does one step. The last step answers the request."""


class _Long:
    """One request under way."""

    __slots__ = ("is_over", "request", "work")

    def __init__(self, request: Request, work: Work) -> None:
        self.request = request
        self.work = work
        self.is_over = False


class RequestScheduler:
    """One for all brokers of a loop. `now_s` must advance within an iteration, which an event loop's own `time` does not always do."""

    def __init__(self, now_s: Callable[[], float] = monotonic_s) -> None:
        self._now_s = now_s
        self._left_s = ITERATION_S
        self._long: deque[_Long] = deque()
        self._is_set = False
        self._is_working = False

    def __len__(self) -> int:
        """The number of requests that are not finished."""
        return len(self._long)

    def run(self, request: Request, work: Work) -> None:
        """Start a request's work, at once if this iteration has time left, and finish it in later iterations.

        An exception of the work is passed to `request.fail`. The work is dropped when the connection closes.
        """
        long = _Long(request, work)
        request.on_disconnect = partial(self._drop, long)
        self._long.append(long)
        if not self._is_working:
            self._work()
        if self._long or self._left_s < ITERATION_S / 2:
            self._continue_later()

    def close(self) -> None:
        """Drop all work that is not finished: the broker stops, and closes the connections that wait for it."""
        while self._long:
            self._drop(self._long.popleft())

    def _continue_later(self) -> None:
        """Renew the time budget in the next iteration, also if no work is left by then.

        Short requests need not do that: their times add up until a longer request does.
        """
        if not self._is_set:
            self._is_set = True
            asyncio.get_running_loop().call_soon(self._begin_iteration)

    def _begin_iteration(self) -> None:
        self._is_set = False
        self._left_s = ITERATION_S
        self._work()
        if self._long:
            self._continue_later()

    def _work(self) -> None:
        """Run the waiting work, round robin, until this iteration's time is used up."""
        self._is_working = True
        try:
            while self._long and self._left_s > 0:
                long = self._long.popleft()
                if not self._is_finished(long, min(self._left_s, SHARE_S)):
                    self._long.append(long)
        finally:
            self._is_working = False

    def _is_finished(self, long: _Long, seconds_max: float) -> bool:
        """Run steps of one request until it ends or its time is up."""
        started_s = self._now_s()
        used_s = 0.0
        try:
            while not long.is_over and used_s < seconds_max:
                next(long.work)
                used_s = self._now_s() - started_s
        except StopIteration:
            long.is_over = True
        except Exception as error:  # noqa: BLE001 - the connection writes it to the log and closes
            long.is_over = True
            long.request.fail(error)
        self._left_s -= self._now_s() - started_s
        return long.is_over

    @staticmethod
    def _drop(long: _Long) -> None:
        long.is_over = True
        long.work.close()
