"""What one turn of the event loop collects: records that share an append, and answers that share a write.

Requests that arrive together are decided one after the other; what must wait for the log waits for the end of the turn, once for all.
It moves nothing itself: who has something to do at the end of a turn registers.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

log = logging.getLogger("ottla.broker.turn")

ROUNDS_MAX = 16
"""An answer lets its connection's next request go on, which may have to be settled again: so often within one turn."""


class Answered(Protocol):
    """Someone whose parked request has been answered."""

    def go_on(self) -> None:
        """Take up what waits behind the request."""

    def write_out(self) -> None:
        """Send what there is to send."""


class Turn:
    """One for all that run on a loop, so that everything of a turn is together."""

    __slots__ = ("_answered", "_is_set", "_settles")

    def __init__(self) -> None:
        self._settles: list[Callable[[], None]] = []
        self._answered: list[Answered] = []
        self._is_set = False

    def settle_later(self, settle: Callable[[], None]) -> None:
        """Calls `settle` at the end of this turn. It is asked for once by whoever has something to settle."""
        self._settles.append(settle)
        if not self._is_set:
            self._set()

    def answered(self, connection: Answered) -> None:
        """A parked request was answered: at the end of this turn its connection goes on and writes."""
        self._answered.append(connection)
        if not self._is_set:
            self._set()

    def _set(self) -> None:
        self._is_set = True
        asyncio.get_running_loop().call_soon(self._end)

    def _end(self) -> None:
        written: dict[Answered, None] = {}
        for _ in range(ROUNDS_MAX):
            settles, self._settles = self._settles, []
            for settle in settles:
                self._try(settle)
            answered, self._answered = self._answered, []
            written.update(dict.fromkeys(answered))
            for connection in answered:
                self._try(connection.go_on)
            if not (self._settles or self._answered):
                break
        for connection in written:
            self._try(connection.write_out)
        self._is_set = False
        if self._settles or self._answered:
            self._set()

    @staticmethod
    def _try(call: Callable[[], None]) -> None:
        """One that fails unexpectedly must not take the others with it."""
        try:
            call()
        except Exception:
            log.exception("the end of a turn failed unexpectedly for one of those who waited for it")
