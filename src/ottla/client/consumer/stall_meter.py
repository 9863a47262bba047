"""Stalls of the process: how long the garbage collector, the GIL or the machine held up the consumer's thread.

A garbage collection holds the GIL, so that the consumer's thread cannot send heartbeats meanwhile; CPython's own callbacks (`gc.callbacks`)
measure it. Most take microseconds, and are counted only. The thread measures how late it comes back from waiting, or from its own work, and
what the process did meanwhile; `client.membership.evidence` decides what it means.
"""

import gc
import resource
import sys
import time
from collections import deque
from collections.abc import Callable
from math import inf
from typing import Any, Final, NamedTuple

from ottla.client.membership.evidence import STALL_MS_MIN, Lateness

LONG_MS: Final = 10.0
"""Shorter collections explain no stall, and are not kept."""
PAUSES_MAX: Final = 100


class GcPauses:
    """The collections between `start` and `stop`. `clock` gives seconds."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: float | None = None
        self._count = 0
        self._total_ms = self._max_ms = 0.0
        self._long: deque[tuple[float, float]] = deque(maxlen=PAUSES_MAX)

    def start(self) -> None:
        """Measure from now on."""
        gc.callbacks.append(self._collecting)

    def stop(self) -> None:
        """Measure no more."""
        if self._collecting in gc.callbacks:
            gc.callbacks.remove(self._collecting)

    def inside_ms(self, from_ms: float, to_ms: float) -> float:
        """How long collections took between two times of the clock; one that has not ended counts."""
        pauses = list(self._long)
        if self._began is not None:
            pauses.append((self._began * 1000, to_ms))
        return sum(max(min(ended_ms, to_ms) - max(began_ms, from_ms), 0.0) for began_ms, ended_ms in pauses)

    def metrics(self) -> dict[str, float]:
        """Since `start`; milliseconds."""
        return {"gc-total": self._count, "gc-time-total": self._total_ms, "gc-time-max": self._max_ms}

    def _collecting(self, phase: str, info: dict[str, Any]) -> None:
        # It runs between any two instructions of any thread: it takes no lock.
        if phase == "start":
            self._began = self._clock()
            return
        began, self._began = self._began, None
        if began is None:
            return  # it began before the measuring
        ended_ms = self._clock() * 1000
        pause_ms = ended_ms - began * 1000
        self._count += 1
        self._total_ms += pause_ms
        self._max_ms = max(self._max_ms, pause_ms)
        if pause_ms >= LONG_MS:
            self._long.append((began * 1000, ended_ms))


_THREAD: Final[int | None] = getattr(resource, "RUSAGE_THREAD", None)


class Usage(NamedTuple):
    """CPU time in seconds, and the voluntary context switches of the calling thread, None where they are not known."""

    own_cpu: float
    process_cpu: float
    switches: int | None


def usage() -> Usage:
    """What the calling thread and the process have used until now."""
    switches = None if _THREAD is None else resource.getrusage(_THREAD).ru_nvcsw
    return Usage(time.thread_time(), time.process_time(), switches)


class StallMeter:
    """Measures the calling thread, from its first `waits` on. `clock` gives seconds, `usage` what was used.

    `is_loop`: the thread is that of an event loop, in which other code runs, too.
    """

    def __init__(
        self,
        collections: GcPauses,
        *,
        clock: Callable[[], float] = time.monotonic,
        usage: Callable[[], Usage] = usage,
        is_loop: bool = False,
    ) -> None:
        self._collections = collections
        self._is_loop = is_loop
        self._clock = clock
        self._usage = usage
        self._before = usage()
        self._began_ms = 0.0
        self._due_ms = inf
        self._found: list[Lateness] = []

    def waits(self, wait_ms: float) -> None:
        """The thread is going to wait for so long, or less."""
        self._measure()
        self._begin(wait_ms)

    def woke(self) -> None:
        """The wait is over: from now on the thread has something to do."""
        self._due_ms = min(self._due_ms, self._clock() * 1000)

    def late(self) -> list[Lateness]:
        """What kept the thread from being here earlier; empty when it is not late. What it returns is not returned again."""
        self._measure()
        if not self._found:
            return []
        found, self._found = self._found, []
        return found

    def _measure(self) -> None:
        now_ms = self._clock() * 1000
        late_ms = now_ms - self._due_ms
        if late_ms < STALL_MS_MIN:
            return
        before, due_ms, waited_ms = self._before, self._due_ms, self._due_ms - self._began_ms
        self._begin(0.0)
        after = self._before
        late = Lateness(
            late_ms=late_ms,
            gc_ms=self._collections.inside_ms(due_ms, now_ms),
            own_cpu_ms=(after.own_cpu - before.own_cpu) * 1000,
            # While the thread waited as it should, others may have computed.
            process_cpu_ms=max((after.process_cpu - before.process_cpu) * 1000 - waited_ms, 0.0),
            switches=None if after.switches is None or before.switches is None else after.switches - before.switches,
            switch_interval_ms=sys.getswitchinterval() * 1000,
            is_loop=self._is_loop,
        )
        self._found.append(late)

    def _begin(self, wait_ms: float) -> None:
        self._before = self._usage()
        self._began_ms = self._clock() * 1000
        self._due_ms = self._began_ms + wait_ms
