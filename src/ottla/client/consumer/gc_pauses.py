"""Garbage collections of this process, measured by CPython's own callbacks (`gc.callbacks`).

A collection holds the GIL, so that the consumer's thread cannot send heartbeats meanwhile. Most take microseconds, and are counted only.
"""

import gc
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

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
