"""Long requests in pieces: what one iteration of the event loop spends on all of them together is bounded (`ITERATION_S`).

A handler that may be long is a generator that yields after each piece of work of at most about a millisecond. A small one ends within the
iteration in which it came; of the others, the rest follows in the next iterations, round robin over the requests, so that a connection with
many or large requests delays others by `ITERATION_S` at most, however many such connections there are.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Generator
from functools import partial
from typing import Final

from ottla.broker.api import Request
from ottla.broker.clock import monotonic_s

ITERATION_S: Final = 0.010
"""What all long requests together may take of one iteration of the event loop; the last piece may go beyond it."""
SHARE_S: Final = 0.002
"""What one request may take before the next one continues."""

Work = Generator[None, None, None]
"""The rest of a request: each `next` does one piece. It answers the request itself, as its last act."""


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
        """Starts a request's work, at once while this iteration's budget lasts, and finishes it in later iterations.

        An exception of the work goes to `request.fail`. The work is dropped when the connection closes.
        """
        long = _Long(request, work)
        request.gone = partial(self._drop, long)
        self._long.append(long)
        if not self._is_working:
            self._work()
        if self._long or self._left_s < ITERATION_S / 2:
            self._continue_later()

    def close(self) -> None:
        """Drops all work that is not finished: the broker stops, and closes the connections that wait for it."""
        while self._long:
            self._drop(self._long.popleft())

    def _continue_later(self) -> None:
        """Renews the budget in the next iteration, also if nothing is left to do by then.

        A small request need not ask for that: what such requests use adds up, until one does.
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
        """Runs what there is, round robin, while this iteration's budget lasts."""
        self._is_working = True
        try:
            while self._long and self._left_s > 0:
                long = self._long.popleft()
                if not self._is_finished(long, min(self._left_s, SHARE_S)):
                    self._long.append(long)
        finally:
            self._is_working = False

    def _is_finished(self, long: _Long, seconds_max: float) -> bool:
        """Runs pieces of one request until it ends or its time is over."""
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
