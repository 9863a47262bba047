"""Wait until a condition holds: check it again and again, and fail with what was waited for when it takes too long."""

import asyncio
import time
from collections.abc import Callable
from operator import methodcaller
from typing import Final, TypeVar

_Value = TypeVar("_Value")
_PAUSE_SECONDS = 0.01
HIDE_FAILURES: Final = methodcaller("errisinstance", AssertionError)
"""A module's `__tracebackhide__`: where an assertion fails in it, pytest shows the lines of the test alone."""
__tracebackhide__ = HIDE_FAILURES


class NotYet(AssertionError):
    """What a condition asks about is not there yet; waits go on."""


def wait_until(
    condition: Callable[[], _Value],
    what: str | Callable[[], str],
    doing: Callable[[], object] = lambda: time.sleep(_PAUSE_SECONDS),
    *,
    seconds: float = 60,
) -> _Value:
    """What `condition()` returns once that is true. `doing` runs between two checks: a pause, or a client's short poll.

    A condition that raises NotYet, as `broker.values` of a topic that is not there does, is not true yet. Raises AssertionError with
    `what`, which a call may make then, after so many seconds.
    """
    deadline = time.monotonic() + seconds
    while True:
        missing: NotYet | None = None
        try:
            if value := condition():
                return value
        except NotYet as error:
            missing = error
        if time.monotonic() >= deadline:
            raise AssertionError(_timed_out(what, seconds) + (f" ({missing})" if missing else ""))
        doing()


async def wait_until_in_threads(condition: Callable[[], _Value], what: Callable[[], str], *, seconds: float) -> _Value:
    """`wait_until` for coroutines where checks take their time: each runs in another thread, the event loop meanwhile."""
    deadline = time.monotonic() + seconds
    while not (value := await asyncio.to_thread(condition)):
        if time.monotonic() >= deadline:
            raise AssertionError(_timed_out(await asyncio.to_thread(what), seconds))
        await asyncio.sleep(_PAUSE_SECONDS)
    return value


def _timed_out(what: str | Callable[[], str], seconds: float) -> str:
    return f"waited {seconds} s for: {what if isinstance(what, str) else what()}"
