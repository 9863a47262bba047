"""The clocks that components are given, and work that is repeated by them until it is stopped: checkpoints, retention, sampling, ticks."""

import asyncio
import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import Final


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds since some point in the past; it never jumps."""
    return time.monotonic_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds since some point in the past; it never jumps."""
    return time.monotonic()


_WAIT_S_MAX: Final = 365 * 86_400
"""The event loop's timers accept no longer delay."""


class PeriodicTask:
    """Awaits `work()`, then waits `pause_s()` seconds, again and again; the first call comes `delay_s` seconds after `start`.

    After a call that returned True there is no pause: there is more to do. What `work` raises is passed to `failed`, and the next
    call comes after the pause; what `failed` raises ends the task. One `start` for each object.
    """

    def __init__(
        self,
        work: Callable[[], Awaitable[object]],
        *,
        pause_s: Callable[[], float],
        failed: Callable[[Exception], None],
        delay_s: float = 0,
        name: str | None = None,
    ) -> None:
        self._work = work
        self._pause_s = pause_s
        self._failed = failed
        self._delay_s = delay_s
        self._name = name
        self._finishing = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> "asyncio.Task[None]":
        """Begin, on the running loop."""
        self._task = asyncio.get_running_loop().create_task(self._run(), name=self._name)
        return self._task

    def cancel(self) -> None:
        """End at once; a call of `work` under way is cancelled."""
        if self._task is not None:
            self._task.cancel()

    async def stop(self) -> None:
        """End at once, and return when the task has ended."""
        self.cancel()
        await self._ended()

    async def finish(self) -> None:
        """Let a call of `work` under way end, and start no other one."""
        self._finishing.set()
        await self._ended()

    async def _ended(self) -> None:
        if self._task is not None:
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        if self._delay_s:
            await self._wait(self._delay_s)
        while not self._finishing.is_set():
            has_more = False
            try:
                has_more = await self._work() is True
            except Exception as error:  # noqa: BLE001 - what it means, and whether the work continues, `failed` decides
                self._failed(error)
            if not has_more:
                await self._wait(self._pause_s())

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(min(seconds, _WAIT_S_MAX)):
                await self._finishing.wait()
        except TimeoutError:
            return


log = logging.getLogger(__name__)


class Sampler(ABC):
    """Call `start` when the broker serves, and `stop` before its logs are closed. A sample that fails is logged; the next one is taken."""

    subject: str
    """What is sampled, for the log line about a sample that failed."""

    def __init__(self) -> None:
        self._task = PeriodicTask(lambda: self.sample(), pause_s=lambda: self.pause_s(), failed=self._log_failure)

    @abstractmethod
    async def sample(self) -> None:
        """Take one sample."""

    @abstractmethod
    def pause_s(self) -> float:
        """How long to wait after a sample, in seconds."""

    def start(self) -> None:
        """Sample from now on, on the running loop."""
        self._task.start()

    async def stop(self) -> None:
        """Stop sampling; the last snapshot stays."""
        await self._task.stop()

    def _log_failure(self, error: Exception) -> None:
        log.error("sampling %s failed; it is tried again", self.subject, exc_info=error)
