"""What one iteration of the event loop collects: records that share an append, and responses that share a write.

Requests that arrive together are decided one after the other. Components register what they have to flush, once an iteration; connections
register when one of their parked requests was answered. All of it runs at the end of the iteration.

A response that a request gets at once may be the consequence of one that settled parked requests: `order_responses` has it written behind
theirs. That takes one more iteration, since uvloop writes what one iteration sends to several sockets in any order.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Protocol

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
