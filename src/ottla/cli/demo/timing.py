"""How fast the demo's day goes: the group's timeouts, the replay's pace, and how long anything may take. Numbers only.

The defaults are the shortest that Apache Kafka allows without a change of its settings, so that the incidents take seconds.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The demo's clockwork; a test makes it smaller.

    A frozen member must be noticed (`session_timeout_ms`) well before its `max_poll_interval_ms` has passed too, so that its return shows
    one cause and not two. `wait_seconds_max` bounds every single wait; `run_out_seconds_max` the last one, for the rest of the year.
    """

    session_timeout_ms: int = 6_000
    heartbeat_interval_ms: int = 500
    max_poll_interval_ms: int = 8_000
    slow_batch_ms: int = 10_000
    metadata_refresh_ms: int = 2_000
    flights_per_second: int = 6_000
    work_between_seconds: float = 1.0
    wait_seconds_max: float = 40.0
    run_out_seconds_max: float = 120.0

    @property
    def flights_between_incidents(self) -> int:
        """How many flights more the group must have committed before the next incident: it is at work, not only alive."""
        return int(self.flights_per_second * self.work_between_seconds)
