"""Timers of a member: the next heartbeat, the session, the application's polls (Kafka: `Heartbeat`).

They keep times; what follows from them, `membership` decides. Times are milliseconds of a clock that never jumps.
"""

from ottla.core.client.backoff import backoff_ms
from ottla.core.client.group.values import GroupSettings


class HeartbeatTimers:
    """One member's timers; one heartbeat is in flight at most."""

    def __init__(self, settings: GroupSettings, now_ms: float) -> None:
        self._settings = settings
        self._failures = 0
        self.polled_ms = now_ms
        self.in_flight = False
        self._session_ends_ms = self._next_ms = 0.0
        self.reset(now_ms)

    def reset(self, now_ms: float) -> None:
        """A rebalance is complete: all timers start again."""
        self.poll(now_ms)
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms
        self.reset_session(now_ms)
        self._failures = 0
        self.in_flight = False

    def reset_session(self, now_ms: float) -> None:
        """The coordinator was found, or has answered."""
        self._session_ends_ms = now_ms + self._settings.session_timeout_ms

    def poll(self, now_ms: float) -> None:
        """The application has called poll; the network's thread may learn of it later."""
        self.polled_ms = max(self.polled_ms, now_ms)

    @property
    def due_ms(self) -> float:
        """When the next heartbeat is due."""
        return self._next_ms

    def sent(self, now_ms: float) -> None:
        """A heartbeat is on its way."""
        self.in_flight = True
        self._next_ms = now_ms + self._settings.heartbeat_interval_ms

    def succeeded(self, now_ms: float) -> None:
        """The coordinator has answered a heartbeat, and knows the member."""
        self.in_flight = False
        self._failures = 0
        self.reset_session(now_ms)

    def failed(self, now_ms: float, rng: float) -> None:
        """A heartbeat was not answered, or with an error: send the next one after a back-off."""
        self.in_flight = False
        self._failures += 1
        self._next_ms = now_ms + backoff_ms(self._failures, *self._settings.retry_backoff_ms, rng)

    def is_session_over(self, now_ms: float) -> bool:
        """Whether the coordinator has not answered for session.timeout.ms."""
        return now_ms >= self._session_ends_ms

    def is_poll_over(self, now_ms: float) -> bool:
        """Whether the application has not called poll for max.poll.interval.ms."""
        return now_ms >= self.polled_ms + self._settings.max_poll_interval_ms

    def is_due(self, now_ms: float) -> bool:
        """Whether a heartbeat has to be sent."""
        return not self.in_flight and now_ms >= self._next_ms

    def next_ms(self) -> float:
        """When the first of the timers ends."""
        polls_end_ms = self.polled_ms + self._settings.max_poll_interval_ms
        return min(self._session_ends_ms, polls_end_ms, *([] if self.in_flight else [self._next_ms]))
