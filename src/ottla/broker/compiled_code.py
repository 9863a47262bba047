"""Whether a compiled backend can be used: the extra `arrow` is installed and the machine code is in the cache on the disk.

Compiling holds the interpreter's lock, so another process does it, once on a machine. Until it is done, and where the cache cannot be
written, callers use their reference backend.
"""

import logging
import subprocess
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from threading import Lock

from ottla.extras import missing_packages

log = logging.getLogger(__name__)

Start = Callable[[Sequence[str]], "subprocess.Popen[bytes]"]

_COMPILE = """\
import os
os.nice(10)
from {module} import load_kernels
load_kernels()
"""


def start_process(command: Sequence[str]) -> "subprocess.Popen[bytes]":
    """Start a child process without input or output."""
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class CompiledCode:
    """The kernels of one module with a `load_kernels` function; they are defined in the module `kernels`. For any thread."""

    def __init__(self, module: str, kernels: str, start: Start = start_process) -> None:
        self._module = module
        self._kernels = kernels
        self._start = start
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._is_compiled: bool | None = None

    def is_compiled(self) -> bool:
        """Whether the kernels can be used at once. If not, compiles them in another process. The first call waits for imports."""
        with self._lock:
            if self._is_compiled is None:
                self._check()
            return self._is_compiled is True

    def close(self) -> None:
        """Stop the process that compiles, if there is one, and start no other."""
        with self._lock:
            if self._process is not None:
                self._process.kill()
                self._process.wait()
                self._process = None
            if self._is_compiled is None:
                self._is_compiled = False

    def _check(self) -> None:
        if self._process is not None and self._process.poll() is None:
            return
        if missing_packages("arrow"):  # not before: few brokers ask, and each of many in a suite of tests would look through sys.path
            self._is_compiled = False
            return
        from ottla.protocol.arrow.primitives import is_cached

        if is_cached(import_module(self._kernels)):
            self._is_compiled = True
        elif self._process is not None:
            self._give_up(f"the process that compiles ended with status {self._process.returncode}, and the cache is empty")
        else:
            try:
                self._process = self._start([sys.executable, "-c", _COMPILE.format(module=self._module)])
            except OSError as error:
                self._give_up(str(error))

    def _give_up(self, reason: str) -> None:
        self._is_compiled = False
        log.info("compiled code of %s is not available (%s); the reference backend is used", self._module, reason)
