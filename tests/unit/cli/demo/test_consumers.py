"""The demo's consumers as processes, and its time scale."""

import json
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.consumers import Consumers, Timing
from ottla.cli.demo.results import Results

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


class FakeProcess:
    """Remembers its command and its signals; a TERM ends it with `status`."""

    status = 0

    def __init__(self, command: list[str], *, log_path: Path) -> None:
        self.command = command
        self.signals: list[str] = []
        self.is_running = True
        log_path.write_text("what it had to say\n")

    def send_signal(self, name: str) -> None:
        self.signals.append(name)
        self.is_running = self.is_running and name != "TERM"

    def stop(self) -> int:
        self.is_running = False
        return self.status

    def kill(self) -> None:
        self.signals.append("KILL")
        self.is_running = False


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakeProcess]:
    processes: list[FakeProcess] = []

    def start(*arguments: Any, **named: Any) -> FakeProcess:
        processes.append(FakeProcess(*arguments, **named))
        return processes[-1]

    monkeypatch.setattr("ottla.cli.demo.consumers.ServerProcess", start)
    return processes


@pytest.fixture
def consumers(tmp_path: Path, started: list[FakeProcess]) -> Consumers:
    return Consumers("127.0.0.1:9", "flights", "range", Timing(), Results(tmp_path))


def test_a_process_gets_its_name_and_the_timeouts(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("consumer-1")
    command = started[0].command
    config = json.loads(command[command.index("--config") + 1])
    assert config["client.id"] == "consumer-1"
    assert config["session.timeout.ms"] == Timing().session_timeout_ms
    assert config["max.poll.interval.ms"] == Timing().max_poll_interval_ms
    assert config["enable.auto.commit"] is False


def test_what_is_done_to_them_is_a_signal(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    consumers.freeze("a")
    consumers.thaw("a")
    consumers.make_slow("a")
    consumers.ask_to_close("a")
    assert started[0].signals == ["STOP", "CONT", "USR1", "TERM"]
    assert consumers.has_ended("a")
    consumers.check()
    consumers.take_leave("a")
    consumers.kill_all()
    assert "KILL" not in started[0].signals


def test_one_that_ends_unasked_is_reported_with_its_log(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    consumers.check()
    started[0].is_running = False
    with pytest.raises(DemoFailedError, match="what it had to say"):
        consumers.check()


def test_one_that_does_not_close_well_is_reported(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    started[0].status = 1
    consumers.ask_to_close("a")
    with pytest.raises(DemoFailedError, match="status 1"):
        consumers.take_leave("a")


def test_all_are_killed_in_the_end(consumers: Consumers, started: list[FakeProcess]) -> None:
    consumers.start("a")
    consumers.start("b")
    consumers.freeze("b")
    consumers.kill_all()
    assert [process.signals[-1] for process in started] == ["KILL", "KILL"]
