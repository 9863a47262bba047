"""Which lane reads the offsets topic when groups are loaded: the columnar one for large logs, where its machine code is there; else plain.

Both come to the same. Where the extra `arrow` is installed and its code has not been compiled on this machine yet, another process does it
for the next time, and the plain lane reads now.
"""

import logging
import subprocess
import sys
from importlib.util import find_spec
from threading import Lock
from typing import Final

from ottla.broker.cleaner_lane import Start, start_process
from ottla.core.groups.log_fold import Lane, PlainFold

log = logging.getLogger("ottla.broker.groups")

COLUMNAR_BYTES_MIN: Final = 4 << 20
"""Less is read by the plain lane before the compiled code is only loaded: it may be 300,000 commits, where they are compressed."""

_WARM_UP: Final = """\
import os
os.nice(10)
from ottla.columnar.group_loading import warm_up
warm_up()
"""


class LoadingLanes:
    """The lanes of one broker's loading; any thread may ask."""

    def __init__(self, start: Start = start_process) -> None:
        self._start = start
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None
        self._is_installed = all(map(find_spec, ("numpy", "numba", "pyarrow")))

    def choose(self, log_bytes: int) -> Lane:
        """The lane for logs of so many bytes together; only the thread that asks waits while anything heavy is loaded."""
        if log_bytes < COLUMNAR_BYTES_MIN or not self._is_installed:
            return PlainFold
        with self._lock:
            from ottla.columnar import group_loading, group_loading_kernels, kept

            if kept.is_kept(group_loading_kernels):
                return group_loading.ColumnarFold
            if self._process is None:
                self._compile()
            return PlainFold

    def close(self) -> None:
        """Ends the process that compiles, if there is one."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.communicate()
                self._process = None

    def _compile(self) -> None:
        try:
            self._process = self._start([sys.executable, "-c", _WARM_UP])
        except OSError as error:
            log.info("code for loading groups cannot be compiled here (%s); the plain lane does it", error)
