"""A limit on bytes a second that several threads share: a thread over the limit waits."""

import time
from collections.abc import Callable
from threading import Lock


class Throttle:
    """`throttle(size_bytes)` waits until so much more may be done. `wait(seconds)` sleeps, and may return early when all is to stop."""

    def __init__(self, bytes_per_second: float, wait: Callable[[float], object], clock: Callable[[], float] = time.monotonic) -> None:
        self._bytes_per_second = bytes_per_second
        self._wait = wait
        self._clock = clock
        self._lock = Lock()
        self._free_at = 0.0

    def __call__(self, size_bytes: int) -> None:
        """Count bytes that were read or written."""
        with self._lock:
            now = self._clock()
            self._free_at = max(self._free_at, now) + size_bytes / self._bytes_per_second
            delay = self._free_at - now
        if delay > 0.001:
            self._wait(delay)
