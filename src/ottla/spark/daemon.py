"""Spark's Python daemon, which loads what its workers need before it forks them: for tasks, the fetch client and the decoder's kernels.

It does not load Arrow: Arrow starts threads, and a process with threads must not fork. Spark starts the daemon, see `sessions`. It starts
its own for the workers that plan queries, whatever daemon is set; what `adapt` changes holds in these, too.
"""

import gc
import os
import signal
import sys
import time
import traceback
from importlib import import_module
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Final, NoReturn

from ottla.spark.python_path.sitecustomize import without_archives

TASKS: Final = "pyspark.worker"
"""The workers that run tasks. Spark starts a daemon for each kind of worker; the others plan queries, and decode nothing."""

IDLE_S: Final = 240.0
"""How long a daemon whose last worker was idle is kept, after the minute for which Spark keeps idle workers."""

LOOKUP: Final = "pyspark.sql.worker.lookup_data_sources"
"""The worker that looks for installed formats, once in the life of a JVM."""

_DAEMONS: Final = ("pyspark.daemon", "ottla.spark.daemon")
_WORKERS: Final = ("pyspark.worker", "pyspark.sql.worker.", "pyspark.sql.streaming.")


def adapt() -> None:
    """In a Python process of Spark: errors of this package without a traceback, which would stand before their sentence, and a quiet end.

    Nothing is changed in any other process.
    """
    name = sys.orig_argv[2] if sys.orig_argv[1:2] == ["-m"] and len(sys.orig_argv) > 2 else ""
    if name in _DAEMONS or name.startswith(_WORKERS):
        import_module("pyspark.util").traceback = WorkerTraceback("traceback")  # type: ignore[attr-defined]
    if name in _DAEMONS:
        daemon = sys.modules["__main__"] if name == "pyspark.daemon" else import_module("pyspark.daemon")
        daemon.traceback = DaemonTraceback("traceback")  # type: ignore[attr-defined]
        if sys.orig_argv[3:4] == [LOOKUP]:
            daemon.gc = LastCollection("gc")  # type: ignore[attr-defined]


class WorkerTraceback(ModuleType):
    """The module `traceback` for what a worker sends to Spark."""

    def format_exc(self) -> str:
        """The exception with its traceback; one of this package as its sentence alone."""
        return "".join(self.format_exception(*sys.exc_info()))

    def format_exception(self, kind: object, error: BaseException | None, frames: TracebackType | None) -> list[str]:
        """The same for an exception that is given."""
        if error is not None and type(error).__module__.startswith("ottla."):
            return traceback.format_exception_only(error)
        return traceback.format_exception(type(error), error, frames) if error is not None else []

    def __getattr__(self, name: str) -> object:
        return getattr(traceback, name)


class DaemonTraceback(ModuleType):
    """The module `traceback` for the end of a worker, which Spark's daemon prints.

    Spark closes the connection of a worker that was idle for a minute, and of all when it stops; a Unix socket then breaks what the worker
    still writes.
    """

    def print_exc(self) -> None:
        """Print the exception, except that of a closed connection; then end the daemon if this was its last worker."""
        if not isinstance(sys.exception(), ConnectionError):
            traceback.print_exc()
            return
        end_idle_daemon(os.getppid())

    def __getattr__(self, name: str) -> object:
        return getattr(traceback, name)


class LastCollection(ModuleType):
    """The module `gc` for a worker with one task: it collects after that, and ends instead, with its daemon. Both have 70 MB."""

    def collect(self) -> NoReturn:
        """End this worker and its daemon."""
        os.kill(os.getppid(), signal.SIGTERM)
        os._exit(0)


def end_idle_daemon(daemon: int) -> None:
    """Wait, then end the daemon if it has no other worker. Spark starts another one for the next worker, and ends all when it stops."""
    # Workers that end together would each see the other one.
    time.sleep(IDLE_S + os.getpid() % 10)
    try:
        workers = Path(f"/proc/{daemon}/task/{daemon}/children").read_text().split()
    except OSError:
        return  # Not Linux, or the daemon has ended: the process then has another parent.
    if workers == [str(os.getpid())]:
        os.kill(daemon, signal.SIGTERM)


def main() -> None:
    """Load what this daemon's workers need, then run pyspark.daemon. The first argument is the module of the workers."""
    sys.path[:] = without_archives(sys.path)
    from pyspark import daemon

    adapt()
    load(sys.argv[1] if len(sys.argv) > 1 else TASKS)
    # Workers collect garbage after every task. To scan what is loaded here took 80 ms, after 4 ms of work: exempt it.
    gc.freeze()
    daemon.manager()


def load(workers: str) -> None:
    """Load the modules that such workers need."""
    if workers == TASKS:
        import ottla.spark.source.task_reading  # noqa: F401
        from ottla.columnar.preloading import load_kernels

        load_kernels()


if __name__ == "__main__":
    main()
