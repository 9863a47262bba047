"""The clocks that components are given: the time of day, and a monotonic one."""

import time


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def monotonic_ms() -> int:
    """Milliseconds since some point in the past; it never jumps."""
    return time.monotonic_ns() // 1_000_000


def monotonic_s() -> float:
    """Seconds since some point in the past; it never jumps."""
    return time.monotonic()
