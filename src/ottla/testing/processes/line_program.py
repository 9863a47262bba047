"""A program beside a test: controlled by lines on its input, reporting JSON objects, one a line, on its output.

The program ends with its input, so it never outlives the test. The test and the program agree on the meaning of the lines.
"""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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

    def wait_for(self, condition: Callable[[list[Event]], Any], what: str, *, since: int = 0, seconds: float = 20) -> Any:
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
