"""Whether the compiled code of a columnar lane is there: on this machine, kept on the disk, where the extra `arrow` is installed.

Compiling would make the whole broker wait for the interpreter's lock, so that another process does it, once on a machine; until it is done,
and where the machine code cannot be kept, callers take their plain lane.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock

from ottla.core.extras import missing_packages

log = logging.getLogger("ottla.broker")

Start = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]

_WARM_UP = """\
import os
os.nice(10)
from {module} import warm_up
warm_up()
"""


def start_process(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """A child process that nobody talks to."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class CompiledCode:
    """The code of one module with a `warm_up`; its kernels lie in the module `kernels`. Any thread may ask; who asks waits for imports."""

    def __init__(self, module: str, kernels: str, start: Start = start_process) -> None:
        self._module = module
        self._kernels = kernels
        self._start = start
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_there: bool | None = False if missing_packages("arrow") else None

    def is_there(self) -> bool:
        """Whether it can be used at once; where it can not, it is being compiled."""
        with self._lock:
            if self._is_there is None:
                self._look()
            return self._is_there is True

    def close(self) -> None:
        """Ends the process that compiles, if there is one; nothing is compiled any more."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None
            if self._is_there is None:
                self._is_there = False

    def _look(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        from ottla.columnar.kept import is_kept

        if is_kept(import_module(self._kernels)):
            self._is_there = True
        elif self._process is not None:
            self._give_up(f"the process that compiles ended with status {self._process.returncode}, and nothing is kept")
        else:
            try:
                self._process = self._start([sys.executable, "-c", _WARM_UP.format(module=self._module)])
            except OSError as error:
                self._give_up(str(error))

    def _give_up(self, reason: str) -> None:
        self._is_there = False
        log.info("compiled code of %s is not to be had here (%s); the plain lane does its work", self._module, reason)
