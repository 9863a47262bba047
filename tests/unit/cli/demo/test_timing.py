"""The demo's numbers fit together, and what Apache Kafka allows unasked."""

from ottla.cli.demo.timing import Timing

KAFKA_MIN_SESSION_TIMEOUT_MS = 6_000


def test_each_incident_shows_its_own_cause() -> None:
    timing = Timing()
    assert timing.session_timeout_ms >= KAFKA_MIN_SESSION_TIMEOUT_MS
    assert timing.heartbeat_interval_ms * 3 <= timing.session_timeout_ms
    # Frozen: noticed and thawed before the poll interval is over. Slow: still at work when the client gives up.
    assert timing.max_poll_interval_ms >= timing.session_timeout_ms + 1_500
    assert timing.slow_batch_ms >= timing.max_poll_interval_ms + 1_500
    assert timing.wait_seconds_max * 1000 > 2 * timing.slow_batch_ms


def test_work_between_incidents_follows_the_pace() -> None:
    assert Timing(flights_per_second=400, work_between_seconds=0.5).flights_between_incidents == 200
