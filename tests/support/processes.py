"""Child processes of tests: their trees, programs that are controlled by lines on their input, and ports for servers.

A program ends with its input, so it never outlives the test. The test and the program agree on the meaning of lines and events. Ports are
below those of outgoing connections and of servers that ask for any port: neither takes one while a server that has it is stopped.
"""

import contextlib
import json
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil

from ottla.cli.processes import QUICK_START_OPTIONS, ToolMissing, find_java

# --- process trees


def process_tree(pid: int) -> list[psutil.Process]:
    """The process and all its descendants, parents first; empty when it is gone."""
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return [process, *process.children(recursive=True)]
    return []


def command_line(process: psutil.Process) -> str:
    """The words of a process's command line, separated by spaces; "" when it has ended."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return " ".join(process.cmdline())
    return ""


def kill_tree(pid: int) -> None:
    """Send SIGKILL to the process and all its descendants."""
    for process in process_tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def cpu_seconds(pid: int) -> float:
    """CPU time of the process and all its descendants, including those that have ended and were waited for."""
    total = 0.0
    for process in process_tree(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system + times.children_user + times.children_system
    return total


def resident_bytes(pid: int | None = None) -> int:
    """The resident memory of a running process, this one by default."""
    return int(psutil.Process(pid).memory_info().rss)


# --- programs that are controlled by lines


END_SECONDS_MAX = 10

Event = dict[str, Any]


class ProgramEnded(Exception):
    """The program ended while the test waited for an event; the text ends with its stderr."""


class LineProgram:
    """One running program. `events` are all the objects that it has printed; a context manager, or `close`."""

    def __init__(self, command: Sequence[str], *, error_path: Path) -> None:
        self.events: list[Event] = []
        self.error_path = error_path
        self._changed = threading.Condition()
        self._has_ended = False
        with error_path.open("ab") as errors:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True, start_new_session=True
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self.close()

    def send(self, line: str) -> None:
        """Write one line to the program's input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait_for(self, condition: Callable[[list[Event]], Any], what: str, *, since: int = 0, seconds: float = 60) -> Any:
        """What `condition(events[since:])` returns once it is true; checked again at each event.

        Raises TimeoutError with all events, ProgramEnded.
        """
        deadline = time.monotonic() + seconds
        with self._changed:
            while not (found := condition(self.events[since:])):
                if self._has_ended:
                    raise ProgramEnded(f"waited for {what}: {self.error_path.read_text(errors='replace')[-2000:]}")
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"waited {seconds} s for: {what}; since then: {self.events[since:]}")
        return found

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the program; nothing happens when it has ended."""
        self._process.send_signal(number)

    def kill(self) -> None:
        """Kill the program, which has no time to do anything, and wait until it has ended."""
        self._process.kill()
        self.close()

    def close(self) -> None:
        """Close the program's input; kill the program if it does not end."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.close()
            self._process.wait(END_SECONDS_MAX)
        except (BrokenPipeError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait(END_SECONDS_MAX)
        self._reader.join(END_SECONDS_MAX)
        self._process.stdout.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            event = json.loads(line) if line.startswith("{") else {"event": "said", "line": line.rstrip()}
            with self._changed:
                self.events.append(event)
                self._changed.notify_all()
        with self._changed:
            self._has_ended = True
            self._changed.notify_all()


# --- small Java programs


COMPILE_SECONDS_MAX = 120
JVM_OPTIONS = ("-Xmx256m", *QUICK_START_OPTIONS)


class CompileFailed(Exception):
    """The Java source is wrong; the text is the compiler's."""


def compile_java(source: Path, class_path: str, directory: Path) -> str:
    """Compile one source file into `directory`; return the class path to run it with.

    Raises ToolMissing where only a runtime is installed, CompileFailed.
    """
    compiler = find_java().resolve().with_name("javac")
    if not compiler.is_file():
        raise ToolMissing(f"needs a Java compiler, found no {compiler}: install a JDK (Debian: default-jdk-headless)")
    options = [f"-J{option}" for option in QUICK_START_OPTIONS]
    command = [str(compiler), *options, "-cp", class_path, "-d", str(directory), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False)
    if ran.returncode:
        raise CompileFailed(ran.stdout + ran.stderr)
    return f"{directory}:{class_path}"


class JavaProgram(LineProgram):
    """A running class of `class_path`; `options` are for its JVM."""

    def __init__(
        self, main_class: str, class_path: str, *, error_path: Path, arguments: Sequence[str] = (), options: Sequence[str] = ()
    ) -> None:
        command = [str(find_java()), *JVM_OPTIONS, *options, "-cp", class_path, main_class, *arguments]
        super().__init__(command, error_path=error_path)


# --- ports


FIRST = 10_000
END = 32_000
TRIES_MAX = 1_000

_choose = random.SystemRandom()  # not the generator that a test may have seeded: processes would choose the same ports


def free_ports(count: int) -> list[int]:
    """`count` ports of 127.0.0.1, each the next of the one before, without a listener now.

    Raises OSError where none are found.
    """
    for _ in range(TRIES_MAX):
        first = _choose.randrange(FIRST, END - count)
        ports = list(range(first, first + count))
        if _are_free(ports):
            return ports
    raise OSError(f"no {count} free ports in a row were found between {FIRST} and {END}")


def _are_free(ports: list[int]) -> bool:
    with ExitStack() as stack:
        try:
            for port in ports:
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        except OSError:
            return False
    return True
