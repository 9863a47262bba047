"""What one iteration of the event loop collects: records that share an append, and responses that share a write.

Requests that arrive together are decided one after the other. Components register what they have to flush, once an iteration; connections
register when one of their parked requests was answered. All of it runs at the end of the iteration.

A response that a request gets at once may be the consequence of one that settled parked requests: `order_responses` has it written behind
theirs. That takes one more iteration, since uvloop writes what one iteration sends to several sockets in any order.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
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

    __slots__ = ("_answered", "_behind", "_flushes", "_is_scheduled", "is_ordered")

    def __init__(self) -> None:
        self._flushes: list[Callable[[], None]] = []
        self._answered: list[AnsweredConnection] = []
        self._behind: dict[AnsweredConnection, None] = {}
        self._is_scheduled = False
        self.is_ordered = False
        """Whether responses to requests that were not parked are written by `write_behind` until the end of this batch."""

    def flush_later(self, flush: Callable[[], None]) -> None:
        """Call `flush` at the end of this batch. A component registers once, with the first thing that it has to flush."""
        self._flushes.append(flush)
        if not self._is_scheduled:
            self._schedule()

    def resume_later(self, connection: AnsweredConnection) -> None:
        """Resume `connection` at the end of this batch and write its responses: a parked request of it was answered."""
        self._answered.append(connection)
        if not self._is_scheduled:
            self._schedule()

    def order_responses(self) -> None:
        """Have the next responses of this batch written behind those to the parked requests that were answered in it, if there are any."""
        self.is_ordered = bool(self._answered)

    def write_behind(self, connection: AnsweredConnection) -> None:
        """Write the responses of `connection` after those of this batch."""
        self._behind[connection] = None

    def _schedule(self) -> None:
        self._is_scheduled = True
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        to_write: dict[AnsweredConnection, None] = {}
        for _ in range(PASSES_MAX):
            flushes, self._flushes = self._flushes, []
            for flush in flushes:
                self._try(flush)
            answered, self._answered = self._answered, []
            to_write.update(dict.fromkeys(answered))
            for connection in answered:
                self._try(connection.resume)
            if not (self._flushes or self._answered):
                break
        self._write(to_write)
        self.is_ordered = False
        if self._behind:
            behind, self._behind = self._behind, {}
            asyncio.get_running_loop().call_soon(self._write, behind)
        self._is_scheduled = False
        if self._flushes or self._answered:
            self._schedule()

    def _write(self, connections: Iterable[AnsweredConnection]) -> None:
        for connection in connections:
            self._try(connection.write_responses)

    @staticmethod
    def _try(call: Callable[[], None]) -> None:
        """Log an unexpected failure, so that the others still run."""
        try:
            call()
        except Exception:
            log.exception("a callback at the end of an event-loop batch failed unexpectedly")
