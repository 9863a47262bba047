"""What one iteration of the event loop collects: records that share an append, and responses that share a write.

Requests that arrive together are decided one after the other. Components register what they have to flush, once an iteration; connections
register when one of their parked requests was answered. All of it runs at the end of the iteration.
"""

import asyncio
import logging
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

    __slots__ = ("_answered", "_flushes", "_is_scheduled")

    def __init__(self) -> None:
        self._flushes: list[Callable[[], None]] = []
        self._answered: list[AnsweredConnection] = []
        self._is_scheduled = False

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
        for connection in to_write:
            self._try(connection.write_responses)
        self._is_scheduled = False
        if self._flushes or self._answered:
            self._schedule()

    @staticmethod
    def _try(call: Callable[[], None]) -> None:
        """Log an unexpected failure, so that the others still run."""
        try:
            call()
        except Exception:
            log.exception("a callback at the end of an event-loop batch failed unexpectedly")
