"""Runs a migration in Spark, which is started for it, with a progress bar on the standard error."""

import logging
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

import click
from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar
from rich.text import Text

from ottla.core.text import printable

if TYPE_CHECKING:
    from ottla.spark.migration.job import MigrationRun
    from ottla.spark.migration.values import Migration, Progress, Report

T = TypeVar("T")
JAVA_ENDED = "Spark's Java process has ended: run the same command again, it continues"
INTERRUPTED = "interrupted: run the same command again, it continues"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What to do: the migration, the cores of this machine for it, and the words beside the progress bar."""

    migration: "Migration"
    cores: str
    what: str


def execute(order: Order, work: "Callable[[MigrationRun], T]") -> T:
    """The result of `work` with a run in a new session, which is stopped again. Raises click.ClickException with a sentence."""
    from py4j.protocol import Py4JError, Py4JJavaError

    from ottla.cli.pipeline.spark_failures import own_sentence
    from ottla.client.errors import ClientError
    from ottla.spark.migration.job import MigrationRun
    from ottla.spark.migration.values import MigrationError
    from ottla.spark.sessions import OWN_QUERIES, SessionError, session

    try:
        with progress_bar(order.what) as report:
            spark = session("ottla-migrate", master=f"local[{order.cores},1]", settings=OWN_QUERIES)
            # Java would print what is raised here, too, and each task that it gives up.
            spark.sparkContext.setLogLevel("OFF")
            with _quiet_interrupts():
                try:
                    return work(MigrationRun(spark, order.migration, report=report))
                finally:
                    spark.stop()
    except KeyboardInterrupt as error:
        raise click.ClickException(INTERRUPTED) from error
    except (ClientError, MigrationError, SessionError) as error:
        raise click.ClickException(str(error)) from error
    except Exception as error:
        is_connection = isinstance(error, Py4JError | ConnectionError) and not isinstance(error, Py4JJavaError)
        sentence = JAVA_ENDED if is_connection else own_sentence(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error


@contextmanager
def _quiet_interrupts() -> Iterator[None]:
    """Ctrl-C raises KeyboardInterrupt, and Py4J does not print where. PySpark's own handler calls Java in the middle of another call."""

    def interrupt(_signal: int, _frame: object) -> None:
        logging.disable(logging.CRITICAL)  # Py4J prints it as an error
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


class RateColumn(ProgressColumn):
    """Records per second."""

    def render(self, task: Task) -> Text:
        """The rate of the last half minute; nothing before the first batch."""
        speed = task.finished_speed or task.speed
        return Text(f"{speed:,.0f} records/s" if speed else "")


@contextmanager
def progress_bar(what: str) -> "Iterator[Report]":
    """A bar with the share of the records that were read, records per second and the time that is left; nothing but on a terminal."""
    columns = (SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), RateColumn(), TimeRemainingColumn())
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None)

        printed: Mapping[str, int] | None = None

        def report(progress: "Progress") -> None:
            nonlocal printed
            waits = f", waits for {progress.waits_for}" if progress.waits_for else ""
            bar.update(task, description=f"{what}{waits}", completed=progress.done, total=progress.total or None)
            if progress.replay and progress.replay != printed:
                printed = progress.replay
                again = ", ".join(f"{printable(group)} {count}" for group, count in printed.items())
                click.echo(
                    f"all is copied{waits}; if groups continued in the new topic now, they would read records again: {again}", err=True
                )

        yield report
