"""Log lines to stderr that never stop the caller: a thread writes them, and lines that it cannot write in time are dropped and counted.

A program that starts a broker with `subprocess.PIPE` and does not read the pipe fills it after some 64 kB; the next write never returns.
"""

import logging
import os
import select
import threading
from collections import deque
from typing import Final

QUEUE_CHARACTERS_MAX: Final = 1_000_000
CLOSE_SECONDS_MAX: Final = 2.0
"""What is left at the end may take so long."""
STDERR: Final = 2


class QueuedHandler(logging.Handler):
    """Writes to a descriptor from a thread of its own. `close` returns when all is written, or after `CLOSE_SECONDS_MAX`."""

    def __init__(self, descriptor: int = STDERR) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: deque[str] = deque()
        self._queued = 0
        self._dropped = 0
        self._is_closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="ottla-log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queues the line, or counts it when too much waits already."""
        try:
            line = self.format(record) + "\n"
        except Exception:  # noqa: BLE001 - as logging's own handlers do with a line that cannot be formatted
            self.handleError(record)
            return
        with self._changed:
            if self._queued + len(line) > QUEUE_CHARACTERS_MAX:
                self._dropped += 1
                return
            self._lines.append(line)
            self._queued += len(line)
            self._changed.notify()

    def close(self) -> None:
        """Write what waits, as far as it is taken in time."""
        with self._changed:
            self._is_closing = True
            self._changed.notify()
        self._thread.join(CLOSE_SECONDS_MAX)
        super().close()

    def _run(self) -> None:
        while text := self._next():
            try:
                self._write(text.encode(errors="backslashreplace"))
            except OSError:  # the pipe is closed, the disk is full: there is no other place to report it
                with self._changed:
                    self._dropped += text.count("\n")

    def _next(self) -> str:
        """All lines that wait, when there are some; nothing at the end."""
        with self._changed:
            while not (self._lines or self._is_closing):
                self._changed.wait()
            lines = [*self._lines]
            if self._dropped and lines:
                lines.append(f"{self._dropped} log lines were dropped here: stderr was not read\n")
                self._dropped = 0
            self._lines.clear()
            self._queued = 0
        return "".join(lines)

    def _write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            try:
                view = view[os.write(self._descriptor, view) :]
            except BlockingIOError:  # another process that shares the descriptor made it non-blocking
                select.select([], [self._descriptor], [])
