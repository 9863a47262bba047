"""Which lane a cleaning takes: the columnar one for a large log, where the extra `arrow` is there and its code is compiled; else plain.

Both give the same bytes. Compiling would make the whole broker wait for the interpreter's lock, so that another process does it, once on a
machine, which keeps the machine code beside the source; until it is done, and where it cannot be kept, the plain lane is taken.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from threading import Lock
from typing import Final

from ottla.core.cleaning.lane import Lane
from ottla.core.cleaning.plain import PlainLane

log = logging.getLogger("ottla.broker.cleaner")

COLUMNAR_BYTES_MIN: Final = 16 << 20
"""A smaller log is clean by the plain lane before another process has only loaded the compiled code."""
LOAD_SECONDS_MAX: Final = 3.0
"""Machine code that is kept is loaded in a fraction of it; compiling takes longer."""
ATTEMPTS_MAX: Final = 3

_WARM_UP: Final = """\
import os, time
os.nice(10)
from ottla.columnar.cleaning import warm_up
began = time.perf_counter()
warm_up()
print(time.perf_counter() - began)
"""

Start = Callable[[Sequence[str]], "subprocess.Popen[str]"]


def start_process(command: Sequence[str]) -> "subprocess.Popen[str]":
    """A child process whose output is read when it has ended."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)


class Lanes:
    """The lanes of one broker. `start` begins the process that compiles."""

    def __init__(self, start: Start = start_process) -> None:
        self._start = start
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._attempts = 0
        self._is_ready: bool | None = None if all(map(find_spec, ("numpy", "numba", "pyarrow"))) else False

    def choose(self, log_bytes: int) -> Lane:
        """A lane for one log of so many bytes, for the thread that asks; only in that thread is anything heavy loaded."""
        if log_bytes < COLUMNAR_BYTES_MIN:
            return PlainLane()
        with self._lock:
            if self._is_ready is None:
                self._get_ready()
            if not self._is_ready:
                return PlainLane()
        from ottla.columnar.cleaning import ColumnarLane

        return ColumnarLane()

    def close(self) -> None:
        """Ends the process that compiles, if there is one."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
                self._process = None
            self._is_ready = False

    def _get_ready(self) -> None:
        """Sees whether the process has ended, and how; what it took tells whether the machine code was kept."""
        if self._process is not None:
            if self._process.poll() is None:
                return
            said, _ = self._process.communicate()
            status, self._process = self._process.returncode, None
            if status == 0 and float(said) <= LOAD_SECONDS_MAX:
                self._is_ready = True
                return
            if status != 0 or self._attempts == ATTEMPTS_MAX:
                log.info("compiled code for cleaning is not to be had here; the plain lane does it")
                self._is_ready = False
                return
        self._attempts += 1
        try:
            self._process = self._start([sys.executable, "-c", _WARM_UP])
        except OSError as error:
            log.info("compiled code for cleaning is not to be had here (%s); the plain lane does it", error)
            self._is_ready = False
