"""The demo's consumers, each a process of its own, and how fast its day goes: timeouts, the replay's pace, how long anything may take.

The default timeouts are the shortest that Apache Kafka allows without a change of its settings, so that the incidents take seconds.
"""

import json
import sys
from dataclasses import dataclass

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Results
from ottla.cli.processes import ServerProcess


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


GROUP = "flight-desk"
_LOG_TAIL_CHARS = 1_500


class Consumers:
    """All consumer processes by name; the name is also the client id."""

    def __init__(self, bootstrap_servers: str, topic: str, assignor: str, timing: Timing, results: Results) -> None:
        self._topic = topic
        self._timing = timing
        self._results = results
        self._processes: dict[str, ServerProcess] = {}
        self._closing: set[str] = set()
        self._settings = {
            "bootstrap.servers": bootstrap_servers,
            "group.id": GROUP,
            "partition.assignment.strategy": assignor,
            "session.timeout.ms": timing.session_timeout_ms,
            "heartbeat.interval.ms": timing.heartbeat_interval_ms,
            "max.poll.interval.ms": timing.max_poll_interval_ms,
            "topic.metadata.refresh.interval.ms": timing.metadata_refresh_ms,
            # Partitions that are added later have records before a consumer knows of them.
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }

    def start(self, name: str) -> None:
        """Start a process of this name."""
        config = json.dumps({**self._settings, "client.id": name})
        command = [sys.executable, "-m", "ottla.cli.demo.consumer", "--config", config, "--topic", self._topic]
        command += ["--slow-batch-ms", str(self._timing.slow_batch_ms), "--summary", str(self._results.consumer_summary(name))]
        self._processes[name] = ServerProcess(command, log_path=self._results.consumer_log(name))

    def freeze(self, name: str) -> None:
        """SIGSTOP: alive, but does not run; its heartbeats stop too."""
        self._processes[name].send_signal("STOP")

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        self._processes[name].send_signal("CONT")

    def make_slow(self, name: str) -> None:
        """Its next flights take longer than its poll interval allows; its heartbeats go on."""
        self._processes[name].send_signal("USR1")

    def ask_to_close(self, name: str) -> None:
        """SIGTERM: it finishes its flights, commits, and leaves the group."""
        self._closing.add(name)
        self._processes[name].send_signal("TERM")

    def has_ended(self, name: str) -> bool:
        """Whether the process is gone."""
        return not self._processes[name].is_running

    def take_leave(self, name: str) -> None:
        """Forget a process that was asked to close and has ended. Raises DemoFailedError when it did not end well."""
        status = self._processes.pop(name).stop()
        if status != 0:
            raise DemoFailedError(f"{name} ended with status {status}; {self._last_words(name)}")

    def check(self) -> None:
        """Raises DemoFailedError when a process has ended that should be there."""
        for name in self._processes.keys() - self._closing:
            if self.has_ended(name):
                raise DemoFailedError(f"{name} has ended without being asked to; {self._last_words(name)}")

    def kill_all(self) -> None:
        """End every process at once, frozen ones too."""
        while self._processes:
            self._processes.popitem()[1].kill()

    def _last_words(self, name: str) -> str:
        log = self._results.consumer_log(name)
        return f"the end of {log}:\n{log.read_text(errors='replace')[-_LOG_TAIL_CHARS:]}"
