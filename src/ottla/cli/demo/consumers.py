"""Controls the consumer processes: starts, suspends, resumes, slows, closes or kills them, each with its log and its settings.

Its methods send signals and do not wait until the group has noticed.
"""

import json
import sys

from ottla.cli.demo import DemoFailedError
from ottla.cli.demo.results import Results
from ottla.cli.demo.timing import Timing
from ottla.testing.processes.process import ServerProcess

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
