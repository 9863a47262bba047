"""What the demo leaves in its results directory, and its progress on the terminal.

A directory that something else has filled is refused, never cleared; a file marks one as the demo's. Progress is a line for each finished
step, and below them the current one with two progress bars. On a terminal the lower part moves; elsewhere only the finished lines are
printed.
"""

import json
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from ottla.cli.demo import DemoFailedError

WIDTH_MAX = 100


class Results:
    """Names inside the results directory. `prepare` makes it, and empties it when it holds an earlier demo's results."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.broker_data = directory / "broker"
        self.spark_log = directory / "spark.log"
        self.flights_per_airline = directory / "flights-per-airline"
        self.report = directory / "report.html"
        self.summary = directory / "summary.json"

    def prepare(self) -> None:
        """An empty directory with our mark in it. Raises DemoFailedError when it holds anything else."""
        if self.directory.exists():
            is_empty = self.directory.is_dir() and not any(self.directory.iterdir())
            if not is_empty and not self.summary.is_file():
                raise DemoFailedError(f"{self.directory} is there already and holds no demo's results: choose another with --results")
            shutil.rmtree(self.directory)
        self.directory.mkdir(parents=True)
        self.write_summary({"finished": False})

    def consumer_log(self, name: str) -> Path:
        """Where a consumer process writes its log."""
        return self.directory / f"{name}.log"

    def consumer_summary(self, name: str) -> Path:
        """Where a consumer process says at its end what it did."""
        return self.directory / f"{name}.json"

    def write_summary(self, summary: dict[str, Any]) -> None:
        """What the demo found, for programs."""
        self.summary.write_text(json.dumps(summary, indent=1) + "\n")


class Display:
    """The moving part of the screen, as a context manager."""

    def __init__(self, console: Console) -> None:
        self.durations_s: dict[str, float] = {}
        self._console = console
        self._title = Progress(SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn(), console=console)
        self._detail = ""
        self._bars = Progress(
            TextColumn("  {task.description:<9}"), BarColumn(50), MofNCompleteColumn(), TextColumn("flights"), console=console
        )
        self._live = Live(get_renderable=self._render, console=console, transient=True, refresh_per_second=8)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None) -> None:
        self._live.stop()

    @contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Announces a step while it runs; then prints it with the seconds that it took."""
        task = self._title.add_task(title)
        started_s = time.monotonic()
        try:
            yield
        except BaseException:
            self._console.print(f"[red]✗[/] {self._seconds(started_s)}  {title}", highlight=False)
            raise
        finally:
            self._title.remove_task(task)
            self._detail = ""
        self.durations_s[title] = round(time.monotonic() - started_s, 3)
        self._console.print(f"[green]✓[/] {self._seconds(started_s)}  {title}", highlight=False)

    @contextmanager
    def bars(self, *names: str, total: int) -> Iterator[list[TaskID]]:
        """Show progress bars; `advance` moves them."""
        tasks = [self._bars.add_task(name, total=total) for name in names]
        yield tasks
        for task in tasks:
            self._bars.remove_task(task)

    def advance(self, task: TaskID, done: int) -> None:
        """Move a bar."""
        self._bars.update(task, completed=done)

    def tell_detail(self, detail: str) -> None:
        """What the present step waits for."""
        self._detail = detail

    def _render(self) -> RenderableType:
        parts: list[RenderableType] = [self._title]
        if self._detail:
            parts.append(f"  [dim]waiting for {self._detail}[/]")
        if self._bars.task_ids:
            parts.append(self._bars)
        return Group(*parts)

    @staticmethod
    def _seconds(started_s: float) -> str:
        return f"{time.monotonic() - started_s:5.1f} s"
