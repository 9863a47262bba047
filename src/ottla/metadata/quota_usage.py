"""What clients use of their quotas, and how long they must wait: Kafka's windowed rates and token buckets, with the time as an argument.

Rate: what was recorded in the last windows, by the time since the oldest of them began, at least `samples - 1` windows (Kafka's Rate and
SampledStat). Bucket: fills with the quota up to that of all windows, and may go below zero (TokenBucket, KIP-599).
"""

from typing import Final

from ottla.metadata.client_quotas import ClientQuotas, Quota

COUNTED_MAX: Final = 10_000
"""So many users and client ids are counted for each kind of quota; beyond, those that were idle longest are forgotten."""
_SECOND_MS: Final = 1000


class Rate:
    """The sum of what was recorded by windows of `window_ms`, of which `samples` are kept."""

    __slots__ = ("_samples", "_windows", "window_ms")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._samples = samples
        self.window_ms = window_ms
        # Of each window: its start, its last event, and the sum of its values.
        self._windows: list[list[float]] = []

    def record(self, value: float, now_ms: float) -> None:
        """Count a value."""
        windows = self._windows
        if not windows or now_ms - windows[-1][0] >= self.window_ms:
            windows.append([now_ms, now_ms, 0.0])
            if len(windows) > self._samples + 1:
                del windows[0]
        windows[-1][1] = now_ms
        windows[-1][2] += value

    def measure(self, now_ms: float) -> tuple[float, float]:
        """The rate a second, and the time in seconds that it is of."""
        expiry_ms = self._samples * self.window_ms
        self._windows = windows = [each for each in self._windows if now_ms - each[1] < expiry_ms]
        elapsed_ms = now_ms - windows[0][0] if windows else 0.0
        missing = self._samples - 1 - elapsed_ms // self.window_ms
        seconds = max(elapsed_ms + max(missing, 0) * self.window_ms, 1) / _SECOND_MS
        return sum(each[2] for each in windows) / seconds, seconds

    def throttle_ms(self, quota: float, now_ms: float) -> int:
        """How long to wait until the rate is the quota again; 0 where it is not above."""
        rate, seconds = self.measure(now_ms)
        return round((rate - quota) / quota * seconds * _SECOND_MS) if rate > quota else 0


class TokenBucket:
    """Tokens that come with the quota; full at first."""

    __slots__ = ("_at_ms", "_seconds", "tokens")

    def __init__(self, samples: int, window_ms: int) -> None:
        self._seconds = samples * window_ms / _SECOND_MS
        self._at_ms: float | None = None
        self.tokens = 0.0

    def refill(self, quota: float, now_ms: float) -> None:
        """Add what has come since the last time."""
        capacity = quota * self._seconds
        since_ms = now_ms - self._at_ms if self._at_ms is not None else float("inf")
        self.tokens = min(capacity, self.tokens + quota * since_ms / _SECOND_MS) if since_ms else min(capacity, self.tokens)
        self._at_ms = now_ms

    def throttle_ms(self, quota: float) -> int:
        """How long to wait until the bucket is not below zero."""
        return round(-self.tokens / quota * _SECOND_MS) if self.tokens < 0 else 0


class QuotaUsage:
    """What clients use of one kind of quota that is a rate: of bytes, or of time. `throttle_ms_max` bounds what they wait."""

    def __init__(self, quotas: ClientQuotas, key: str, samples: int, window_ms: int, throttle_ms_max: int | None = None) -> None:
        self._quotas = quotas
        self._key = key
        self._samples, self._window_ms = samples, window_ms
        self._throttle_ms_max = throttle_ms_max
        self._rates: dict[tuple[str, str], Rate] = {}

    def __len__(self) -> int:
        return len(self._rates)

    def record(self, user: str, client_id: str, value: float, now_ms: float) -> int:
        """Count a value, and say for how many ms the client is to be throttled."""
        quota = self._quotas.of_client(self._key, user, client_id)
        if quota is None:
            return 0
        rate = self._rates.pop(quota.counted_as, None) or Rate(self._samples, self._window_ms)
        if len(self._rates) >= COUNTED_MAX:
            del self._rates[next(iter(self._rates))]
        self._rates[quota.counted_as] = rate  # the one that was used last comes last
        rate.record(value, now_ms)
        throttle_ms = rate.throttle_ms(quota.value, now_ms)
        return throttle_ms if self._throttle_ms_max is None else min(throttle_ms, self._throttle_ms_max)


class MutationUsage:
    """What clients use of `controller_mutation_rate`: partitions that they create and delete."""

    def __init__(self, quotas: ClientQuotas, key: str, samples: int, window_ms: int) -> None:
        self._quotas = quotas
        self._key = key
        self._samples, self._window_ms = samples, window_ms
        self._buckets: dict[tuple[str, str], TokenBucket] = {}

    def record(self, user: str, client_id: str, partitions: int, now_ms: float, *, strict: bool) -> tuple[bool, int]:
        """Whether so many partitions may be created or deleted, and for how many ms the client is to be throttled.

        With `strict`, nothing is counted where the bucket is below zero already; without, everything may be done.
        """
        quota = self._quotas.of_client(self._key, user, client_id)
        if quota is None:
            return True, 0
        bucket = self._bucket(quota)
        bucket.refill(quota.value, now_ms)
        is_allowed = not strict or bucket.tokens >= 0
        if is_allowed:
            bucket.tokens -= partitions
        return is_allowed, 0 if strict and is_allowed else bucket.throttle_ms(quota.value)

    def _bucket(self, quota: Quota) -> TokenBucket:
        bucket = self._buckets.pop(quota.counted_as, None) or TokenBucket(self._samples, self._window_ms)
        if len(self._buckets) >= COUNTED_MAX:
            del self._buckets[next(iter(self._buckets))]
        self._buckets[quota.counted_as] = bucket
        return bucket
