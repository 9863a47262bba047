"""Servers as child processes that never outlive this process, and a Java for those that need one.

A small shell runs between this process and a server: it kills the server when its input closes, which happens even when this process is
killed. As a program, this file prints the home of the Java found, or nothing; the Makefile runs it before anything is installed, so it
needs the standard library only.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

JAVA_VERSION_MIN = 17
JVM_DIRECTORY = Path("/usr/lib/jvm")
# Starts with half the work and stays slower: for tests and for the demo, whose JVMs live for seconds; never for measuring.
# Without the last, Java collects all garbage when its classes take 21 MB: a second of CPU in a Spark that has just started.
QUICK_START_OPTIONS = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:MetaspaceSize=128m")


class ToolMissing(Exception):
    """A required program is not on this machine; the text says which, and what to do. Tests print it as their reason to skip."""


def find_java(version_min: int = JAVA_VERSION_MIN) -> Path:
    """The `java` program of a Java that is at least `version_min`. Raises ToolMissing with what was found instead."""
    seen: list[str] = []
    for java in _candidates():
        version = java_version(java)
        if version is not None and version >= version_min:
            return java
        seen.append(f"{java} (Java {version or 'of unknown version'})")
    found = "found only " + ", ".join(seen) if seen else "found none in JAVA_HOME, PATH and /usr/lib/jvm"
    raise ToolMissing(f"needs Java {version_min} or later, {found}: install one (Debian: default-jre-headless) or set JAVA_HOME")


def find_java_home(version_min: int = JAVA_VERSION_MIN) -> Path:
    """The installation that `find_java` finds, as JAVA_HOME names it. Raises ToolMissing."""
    return _home(find_java(version_min))


def java_version(java: Path) -> int | None:
    """The feature version (17, 21, ...) of a `java` program, None when it cannot be determined."""
    release = _home(java) / "release"
    if release.is_file():
        stated = re.search(r'^JAVA_VERSION="([^"]+)"', release.read_text(errors="replace"), re.MULTILINE)
        if stated:
            return _feature_version(stated.group(1))
    try:
        ran = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except OSError:
        return None
    stated = re.search(r'version "([^"]+)"', ran.stderr)
    return _feature_version(stated.group(1)) if stated else None


def _home(java: Path) -> Path:
    """The installation of a `java` program, which may be a symbolic link into it."""
    return java.resolve().parent.parent


def _feature_version(text: str) -> int | None:
    """17 of "17.0.15", 8 of the old form "1.8.0_392"."""
    numbers = re.match(r"(?:1\.)?(\d+)", text)
    return int(numbers.group(1)) if numbers else None


def _candidates() -> Iterator[Path]:
    home = os.environ.get("JAVA_HOME")
    if home and (java := Path(home) / "bin" / "java").is_file():
        yield java
    on_path = shutil.which("java")
    if on_path:
        yield Path(on_path)
    installed = [java for java in JVM_DIRECTORY.glob("*/bin/java") if java.is_file()]
    yield from sorted(installed, key=lambda java: (java_version(java) or 0, str(java)))


def main() -> None:
    """Print the home of the Java found, or nothing."""
    try:
        sys.stdout.write(f"{find_java_home()}\n")
    except ToolMissing:
        return


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


READY_SECONDS_MAX = 60
RUN_COMMAND = (sys.executable, "-c", "from ottla.cli.main import main; main()")


class StartFailed(Exception):
    """`ottla broker` did not print where it listens; the text holds its output."""


class OttlaProcess(BrokerProcess):
    """One `ottla broker` process with its data in `data_dir`, as a context manager or by `start`, `stop` and `kill`.

    `start` after `stop` or `kill` uses the same data and port, which is any free one unless `config` has `listeners`. `config` holds
    Kafka's settings by their names. `command` is what runs the command line `ottla`.
    """

    kind = "ottla"

    def __init__(self, data_dir: str | Path, *, config: Mapping[str, str] | None = None, command: Sequence[str] = RUN_COMMAND) -> None:
        super().__init__()
        self._command = tuple(command)
        self.data_dir = Path(data_dir)
        self.log_path = self.data_dir.with_name(self.data_dir.name + ".log")
        self.config = dict(config or {})

    def start(self) -> None:
        """Start the broker and wait until it prints where it listens."""
        assert self._process is None, "already started"
        self.data_dir.parent.mkdir(parents=True, exist_ok=True)
        settings = [argument for name, value in self.config.items() for argument in ("--config", f"{name}={value}")]
        listen = [] if "listeners" in self.config else ["--listen", f"127.0.0.1:{self._port}"]
        command = [*self._command, "broker", *listen, "--data", str(self.data_dir), *settings]
        said_before = self.log_path.stat().st_size if self.log_path.exists() else 0
        process = ServerProcess(command, log_path=self.log_path)
        deadline = time.monotonic() + READY_SECONDS_MAX
        while time.monotonic() < deadline:
            ended = not process.is_running
            said = self.log_path.read_bytes()[said_before:].decode(errors="replace")
            ready = re.search(r"^bootstrap\.servers=.*:(\d+)\n", said, re.MULTILINE)
            if ready:
                self._process, self._port = process, int(ready.group(1))
                return
            if ended:
                break
            time.sleep(0.005)
        process.kill()
        raise StartFailed(f"`ottla broker` did not start:\n{self.log_path.read_text(errors='replace')[-4000:]}")


if __name__ == "__main__":
    main()
