"""A small Java program beside a test: compiled once, led by lines on its input, heard by JSON objects, one a line, on its output.

The program ends with its input, so it never outlives us. What the lines mean is the program's business and the test's.
"""

import json
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from ottla.testing.java import ToolMissing, find_java

COMPILE_SECONDS_MAX = 120
END_SECONDS_MAX = 10
# Starts sooner, and tests run no longer than it takes to compile what runs hot.
JVM_OPTIONS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto")

Event = dict[str, Any]


class CompileFailed(Exception):
    """The Java source is wrong; the text is the compiler's."""


class ProgramEnded(Exception):
    """The program ended while something of it was waited for; the text ends with what it said on stderr."""


def compile_java(source: Path, class_path: str, directory: Path) -> str:
    """Compiles one source file into `directory`; gives the class path to run it with.

    Raises ToolMissing where only a runtime is installed, CompileFailed.
    """
    compiler = find_java().resolve().with_name("javac")
    if not compiler.is_file():
        raise ToolMissing(f"needs a Java compiler, found no {compiler}: install a JDK (Debian: default-jdk-headless)")
    command = [str(compiler), "-cp", class_path, "-d", str(directory), str(source)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=COMPILE_SECONDS_MAX, check=False)
    if ran.returncode:
        raise CompileFailed(ran.stdout + ran.stderr)
    return f"{directory}:{class_path}"


class JavaProgram:
    """One running program. `events` are all the objects that it has printed; a context manager, or `close`."""

    def __init__(self, main_class: str, class_path: str, *, error_path: Path, arguments: Sequence[str] = ()) -> None:
        self.events: list[Event] = []
        self.error_path = error_path
        self._changed = threading.Condition()
        self._has_ended = False
        command = [str(find_java()), *JVM_OPTIONS, "-cp", class_path, main_class, *arguments]
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
        """One line to the program's input."""
        assert self._process.stdin is not None
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()

    def wait_for(self, condition: Callable[[list[Event]], Any], what: str, *, since: int = 0, seconds: float = 20) -> Any:
        """What `condition(events[since:])` gives once it is true; looked at again with each event.

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

    def close(self) -> None:
        """End it: its input ends, and where that is not enough, it is killed."""
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
