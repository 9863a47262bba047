"""Exponential back-off with jitter. Source: KIP-580."""

from typing import Final

_JITTER: Final = 0.2


def backoff_ms(failures: int, first_ms: int, max_ms: int, rng: float) -> float:
    """The wait after so many failures in a row (the first is 1); `rng` is a number from 0 to 1, and changes the wait by up to a fifth.

    Where `first_ms` is above `max_ms`, the wait is always `max_ms`.
    """
    if first_ms >= max_ms:
        return float(max_ms)
    doublings = min(max(failures - 1, 0), 62)
    jitter = 1 - _JITTER + 2 * _JITTER * rng
    return min((first_ms << doublings) * jitter, float(max_ms))
