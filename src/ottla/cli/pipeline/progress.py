"""How far Spark is with a pipeline, as a bar on a terminal; where there is no terminal, nothing is shown.

From Spark's status: how many tasks of the current stages are done, or the offsets at which a query's last micro-batch ended.
"""

import json
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Any, Final, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

_UPDATE_S: Final = 0.2


def tasks_done(tracker: Any) -> float:
    """The part of the present stages' tasks that is done, 0 to 1; `tracker` is Spark's StatusTracker."""
    stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    total = sum(stage.numTasks for stage in stages if stage is not None)
    done = sum(stage.numCompletedTasks for stage in stages if stage is not None)
    return done / total if total else 0.0


def end_offsets(progress: Mapping[str, Any] | None) -> int:
    """The sum of the offsets at which the last micro-batch ended, over all partitions; 0 before the first. `progress`: lastProgress."""
    if not progress or not progress["sources"] or not progress["sources"][0]["endOffset"]:
        return 0
    topics = json.loads(progress["sources"][0]["endOffset"])
    return sum(sum(offsets.values()) for name, offsets in topics.items() if not name.startswith("#"))


class Bar:
    """A bar with a text, as a context manager. `share_done` is called periodically: the part that is done, 0 to 1."""

    def __init__(self, console: Console, text: str) -> None:
        columns = (TextColumn("{task.description}"), BarColumn(30), TaskProgressColumn(), TimeElapsedColumn())
        self._progress = Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
        self._task = self._progress.add_task(text, total=1.0)
        self._share_done: Callable[[], float] = lambda: 0.0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pipeline-progress", daemon=True)

    def __enter__(self) -> Self:
        self._progress.start()
        if not self._progress.disable:
            self._thread.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._progress.stop()

    def show(self, text: str, share_done: Callable[[], float]) -> None:
        """Show what is being done from now on, and its progress."""
        self._share_done = share_done
        self._progress.update(self._task, description=text, completed=0.0)

    def _watch(self) -> None:
        while not self._ended.wait(_UPDATE_S):
            self._progress.update(self._task, completed=self._share_done())
