"""A member of a group as a process that is killed and started again, with everything that it has started itself."""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import psutil

from ottla.testing.processes.process import ServerProcess
from ottla.testing.processes.process_tree import command_line, kill_tree, process_tree

PLANNER: Final = "python_streaming_source_runner"
"""How the command line of the process ends that plans the batches of a query."""
WORKERS: Final = {PLANNER: "the one that plans", "pyspark.worker": "one that reads, or their parent"}
"""Spark's Python processes of a running query, by the end of their command lines; the others have done their work."""


class Program:
    """One program. `directory` is what it works in, and holds its log; it is made."""

    def __init__(self, kind: str, directory: Path, command: Sequence[str]) -> None:
        directory.mkdir(parents=True)
        self.kind = kind
        self.directory = directory
        self.log = directory / "program.log"
        self._command = list(command)
        self._process: ServerProcess | None = None

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has neither ended nor been killed."""
        return self._process is not None and self._process.is_running

    @property
    def pid(self) -> int:
        """The process id of the running program."""
        assert self._process is not None, "not running"
        return self._process.pid

    def start(self) -> None:
        """Start it; it continues where its directory says."""
        assert self._process is None, "already started"
        self._process = ServerProcess(self._command, log_path=self.log)

    def kill(self) -> None:
        """Kill the program and all that it has started, such as Java and Spark's workers, so that none finishes its work; if it runs."""
        if self._process is not None:
            kill_tree(self._process.pid)
            self._process.kill()
            self._process = None

    def stop(self) -> None:
        """Let it end by itself (SIGTERM); it is killed where it does not."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def freeze(self) -> None:
        """Stop the program and all that it has started, as a machine does that is suspended; `thaw` lets them continue."""
        self._signal("suspend")

    def thaw(self) -> None:
        """Let what was frozen continue."""
        self._signal("resume")

    def _signal(self, act: str) -> None:
        for process in process_tree(self.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                getattr(process, act)()

    def workers(self) -> list[psutil.Process]:
        """The Python processes of its Spark: one that plans, and those that read."""
        if self._process is None:
            return []
        return [process for process in process_tree(self._process.pid) if command_line(process).endswith(tuple(WORKERS))]

    def failed_queries(self) -> int:
        """How often it had to start its query again."""
        return self.said().count("the query failed: ")

    def said(self) -> str:
        """Its log."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""


def kind_of(worker: psutil.Process) -> str:
    """What a worker does, in words; "one that has ended" where that cannot be known any more."""
    words = command_line(worker)
    return next((what for end, what in WORKERS.items() if words.endswith(end)), "one that has ended")
