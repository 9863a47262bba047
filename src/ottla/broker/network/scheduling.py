"""The time of one iteration of the event loop, shared out: long requests run in steps, pipelined ones in turns, blocking ones in tasks.

A handler that may take long is a generator that yields after each step of at most about a millisecond. A short one ends within the
iteration in which it arrived; the others continue in the next iterations, round robin over the requests. Of the requests that arrive in one
read, the first is handled at once, the next ones until the iteration's time is up. So neither many nor large requests of one connection
delay the others by more than some milliseconds (`ITERATION_S`).

What one iteration collects is flushed at its end (`EventLoopBatch`): records that share an append, and responses that share a write.
Components register what they have to flush, once an iteration; connections register when one of their parked requests was answered. A
response that a request gets at once may be the consequence of one that settled parked requests: `order_responses` has it written behind
theirs. That takes one more iteration, since uvloop writes what one iteration sends to several sockets in any order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from functools import partial
from typing import Any, Final, Protocol

from ottla.broker.clock import monotonic_s
from ottla.broker.network.request import Request

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


UNCHECKED_MAX: Final = 16
"""Requests between two reads of the clock: a read costs some hundredth of what a small request does."""
PIPELINED_SHARE_S: Final = 0.001
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
            self._share_end_s = min(self._time_end_s, self._now_s() + PIPELINED_SHARE_S)
            self._unchecked = 0
            connection.continue_frames()
            if self._now_s() >= self._time_end_s:
                break
        self._share_end_s = self._time_end_s


class Background:
    """One for all brokers of a loop. It keeps the tasks until they end, since the loop alone keeps only weak references."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, request: Request, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        """Start `work` in the next iteration of the loop; an exception of it is passed to `request.fail`."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)

        def ended(task: "asyncio.Task[None]") -> None:
            self._tasks.discard(task)
            error = None if task.cancelled() else task.exception()
            if isinstance(error, Exception):
                request.fail(error)

        task.add_done_callback(ended)
        return task

    def cancel(self) -> None:
        """Cancel all of them: the broker stops, and closes the connections that wait."""
        for task in self._tasks:
            task.cancel()


log = logging.getLogger(__name__)

PASSES_MAX = 16
"""A response lets its connection's next request start, which may need another flush: at most so often in one batch."""


class AnsweredConnection(Protocol):
    """A connection whose parked request has been answered."""

    def resume(self) -> None:
        """Start the requests that wait behind the answered one."""

    def write_responses(self) -> None:
        """Send what there is to send."""


class EventLoopBatch:
    """One for all components on a loop."""

    __slots__ = ("_answered", "_ends_behind", "_flushes", "_is_scheduled", "_is_writing", "_parts", "is_ordered")

    def __init__(self) -> None:
        self._flushes: list[Callable[[], None]] = []
        self._answered: list[AnsweredConnection | None] = []
        """In the order of their answers. None: what follows is written in a later iteration than what is before it."""
        self._ends_behind = False
        self._parts: deque[dict[AnsweredConnection, None]] = deque()
        """What is to be written, one part an iteration."""
        self._is_scheduled = False
        self._is_writing = False
        self.is_ordered = False
        """Whether responses to requests that were not parked are written by `write_behind`, until all that was answered is written."""

    def flush_later(self, flush: Callable[[], None]) -> None:
        """Call `flush` at the end of this batch. A component registers once, with the first thing that it has to flush."""
        self._flushes.append(flush)
        if not self._is_scheduled:
            self._schedule()

    def resume_later(self, connection: AnsweredConnection) -> None:
        """Resume `connection` at the end of this batch and write its responses: a parked request of it was answered."""
        if self._ends_behind:
            self._answered.append(None)
            self._ends_behind = False
        self._answered.append(connection)
        if not self._is_scheduled:
            self._schedule()

    def order_responses(self) -> None:
        """Have the next responses of this batch written behind those to the parked requests that were answered in it, if there are any."""
        if self._answered:
            self.is_ordered = True

    def write_behind(self, connection: AnsweredConnection) -> None:
        """Write the responses of `connection` after those of all connections that were answered until now, and before later ones."""
        if not self._ends_behind:
            self._answered.append(None)
            self._ends_behind = True
        self._answered.append(connection)
        if not self._is_scheduled:
            self._schedule()

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        part: dict[AnsweredConnection, None] = {}
        self._parts.append(part)
        for _ in range(PASSES_MAX):
            flushes, self._flushes = self._flushes, []
            for flush in flushes:
                self._try(flush)
            answered, self._answered = self._answered, []
            for connection in answered:
                if connection is None:
                    part = {}
                    self._parts.append(part)
                else:
                    part[connection] = None
                    self._try(connection.resume)
            if not (self._flushes or self._answered):
                break
        self._ends_behind = False
        if not self._is_writing:
            self._write_part()
        self._is_scheduled = False
        if self._flushes or self._answered:
            self._schedule()

    def _write_part(self) -> None:
        for connection in self._parts.popleft():
            self._try(connection.write_responses)
        self._is_writing = self.is_ordered = bool(self._parts)
        if self._is_writing:
            asyncio.get_running_loop().call_soon(self._write_part)

    @staticmethod
    def _try(call: Callable[[], None]) -> None:
        """Log an unexpected failure, so that the others still run."""
        try:
            call()
        except Exception:
            log.exception("a callback at the end of an event-loop batch failed unexpectedly")
