"""How late the consumer's thread comes back from waiting, or from its own work, and what the process did meanwhile.

It measures; `core.client.group.stalls` decides what it means. All calls are made by the one thread that is measured.
"""

import resource
import sys
import time
from collections.abc import Callable
from math import inf
from typing import Final, NamedTuple

from ottla.client.consumer.gc_pauses import GcPauses
from ottla.core.client.group.stalls import STALL_MS_MIN, Lateness

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
