"""Servers as child processes that never outlive this process: start one, signal it, kill it, see whether it has ended.

A small shell runs between this process and the server: it kills the server when its input closes, which happens even when this process
is killed.
"""

import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

# Reads signal names from its input and sends them to the server; at the end of the input the server is killed.
SUPERVISOR = """
exec 3<&0
log=$1; shift
"$@" </dev/null 3<&- >>"$log" 2>&1 &
server=$!
echo "$server"
{ while read -r signal <&3; do kill -s "$signal" "$server"; done; kill -s KILL "$server"; } >/dev/null 2>&1 &
watcher=$!
wait "$server"
status=$?
kill "$watcher" 2>/dev/null
exit "$status"
"""


class ServerProcess:
    """One server process, whose output goes to the end of `log_path`."""

    def __init__(self, command: Sequence[str], *, log_path: Path, environment: Mapping[str, str] | None = None) -> None:
        self.log_path = log_path
        log_path.touch()  # a caller may read it at once
        self._shell = subprocess.Popen(
            ["/bin/sh", "-c", SUPERVISOR, "supervisor", str(log_path), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,  # the shell's own message about a killed server
            text=True,
            env=environment,
            start_new_session=True,  # Ctrl-C goes to this process, which then stops the server in order
        )
        assert self._shell.stdout is not None
        self.pid = int(self._shell.stdout.readline())

    @property
    def is_running(self) -> bool:
        """Whether the server has not ended yet."""
        return self.status is None

    @property
    def status(self) -> int | None:
        """The exit status (128 + signal for a signal); None while the server is running."""
        return self._shell.poll()

    def send_signal(self, name: str) -> None:
        """Send a signal by its name without SIG ("STOP"); nothing happens when the server has ended."""
        assert self._shell.stdin is not None
        try:
            self._shell.stdin.write(f"{name}\n")
            self._shell.stdin.flush()
        except BrokenPipeError:
            return

    def stop(self, *, seconds_max: float = 30) -> int:
        """End the server with SIGTERM, then SIGKILL when that takes too long; return its exit status (128 + signal for a signal)."""
        self.send_signal("TERM")
        try:
            self._shell.wait(seconds_max)
        except subprocess.TimeoutExpired:
            self.send_signal("KILL")
        return self._finish()

    def kill(self) -> None:
        """End the server with SIGKILL: it has no time to write anything."""
        self.send_signal("KILL")
        self._finish()

    def _finish(self) -> int:
        status = self._shell.wait(30)
        for stream in (self._shell.stdin, self._shell.stdout):
            assert stream is not None
            try:
                stream.close()
            except BrokenPipeError:
                continue
        return status


class BrokerProcess(ABC):
    """A Kafka broker as a child process: the common part of Ottla's and Apache Kafka's. Context manager, or `start`, `stop` and `kill`."""

    kind: str

    def __init__(self) -> None:
        self._process: ServerProcess | None = None
        self._port = 0

    @abstractmethod
    def start(self) -> None:
        """Start the broker and return when it serves clients; after `stop` or `kill`, on the same data and port."""

    @property
    def bootstrap_servers(self) -> str:
        """Where clients connect, "127.0.0.1:PORT"; known once started."""
        assert self._port, "not started yet"
        return f"127.0.0.1:{self._port}"

    @property
    def is_running(self) -> bool:
        """Whether it has been started and has not ended."""
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int:
        """The process id of the running broker."""
        assert self._process is not None, "not running"
        return self._process.pid

    def stop(self) -> None:
        """Shut down in order (SIGTERM). Nothing happens when it is not running."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def kill(self) -> None:
        """Kill it (SIGKILL), as a crash does."""
        if self._process is not None:
            self._process.kill()
            self._process = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.stop()
