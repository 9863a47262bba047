"""`ottla pipeline run`: Spark is started, the run watched on a bar, and what it wrote shown in short.

What is read, computed and written is ottla.spark's; here failures become sentences. The bar follows Spark's status: tasks of the current
stages that are done, or the offsets at which a query's last micro-batch ended.
"""

import json
import re
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import IO, TYPE_CHECKING, Any, Final, Self

import click
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

if TYPE_CHECKING:
    from ottla.spark.pipelines import Pipeline
    from ottla.spark.runner.pipeline_run import PipelineRun
    from ottla.spark.runner.tables import TableStore


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


@contextmanager
def java_output() -> Iterator[IO[bytes]]:
    """A file for what Java and its workers print at every start; an error that is raised has the end of it as a note."""
    from ottla.spark.sessions import printed

    with tempfile.TemporaryFile() as stderr:
        try:
            yield stderr
        except Exception as error:
            error.add_note(f"Java and its workers printed: {printed(stderr)}")
            raise


_OURS: Final = re.compile(r"\bottla\.[\w.]+(?:Error|Exception): ([^\n]+)")


_NO_FORMAT: Final = re.compile(r"\[DATA_SOURCE_NOT_FOUND\] Failed to find the data source: ([^\s.]+)")


def own_sentence(error: Exception) -> str | None:
    """The message of the last exception of ours in Spark's text; the ones before it are its causes. None where there is none.

    Also a sentence for a format of tables that the session does not have.
    """
    missing = _NO_FORMAT.search(str(error))
    if missing:
        return f"Spark has no format {missing[1]} here: add its jars, with spark.jars.packages in spark-defaults.conf"
    found = _OURS.findall(str(error))
    return found[-1].strip() if found else None


OFFSETS_PER_TRIGGER_MAX: Final = 5_000_000
"""With --available-now: what a micro-batch reads at most, so that much history neither fills the disk's spill nor hides how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TablePlace:
    """Where the tables go: a directory, or a table of a catalog with a directory for checkpoints."""

    directory: str | None = None
    table: str | None = None
    format: str
    checkpoints: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOrder:
    """What was asked for. `mode` is "batch", "available-now" or "stream"; `limit` and `since_ms` are of the rows that are shown."""

    name: str
    pipeline: "Pipeline"
    bootstrap_servers: str
    properties: Mapping[str, str]
    place: TablePlace
    mode: str
    every_s: int
    groups: tuple[str, ...]
    topics: tuple[str, ...]
    cores: str
    as_json: bool
    limit: int
    since_ms: int | None


def find(name: str) -> "Pipeline":
    """The pipeline of a name, or a click.BadParameter that lists them."""
    from ottla.spark.pipelines import pipelines

    if name not in pipelines():
        raise click.BadParameter(f"there is no pipeline {name}; there are {', '.join(pipelines())}", param_hint="NAME")
    return pipelines()[name]


def configured(pipeline: "Pipeline", name: str, settings: Iterable[str]) -> "Pipeline":
    """The pipeline with settings, NAME=VALUE each; raises click.BadParameter with a sentence."""
    values = dict(setting.partition("=")[::2] for setting in settings)
    if not values:
        return pipeline
    if pipeline.configure is None:
        raise click.BadParameter(f"the pipeline {name} has no settings", param_hint="--set")
    try:
        return pipeline.configure(values)
    except ValueError as error:
        raise click.BadParameter(str(error), param_hint="--set") from error


def execute(order: PipelineOrder) -> None:
    """Run it and show what came of it. Raises click.ClickException with a sentence."""
    started_s = time.monotonic()
    with _sentences():
        from ottla.spark.runner.inputs import ClusterInputs, check_brokers
        from ottla.spark.runner.pipeline_run import PipelineRun
        from ottla.spark.sessions import OWN_QUERIES, session

        # Before Spark starts, which takes its time.
        check_brokers(order.bootstrap_servers, order.properties)
        console = Console(stderr=True)
        with java_output() as stderr, Bar(console, "Spark starts") as bar:
            spark = session(f"ottla pipeline {order.name}", master=f"local[{order.cores}]", settings=OWN_QUERIES, stderr=stderr)
            inputs = ClusterInputs(spark=spark, bootstrap_servers=order.bootstrap_servers, properties=order.properties, topics=order.topics)
            try:
                run = PipelineRun(pipeline=order.pipeline, inputs=inputs, tables=_tables(spark, order), groups=order.groups)
                outputs = _batch(run, bar) if order.mode == "batch" else _stream(run, order, bar)
                report = _as_json(order, run, outputs, started_s) if order.as_json else _as_text(order, run, outputs)
            finally:
                spark.stop()
    click.echo(report)


def _tables(spark: Any, order: PipelineOrder) -> "TableStore":
    from ottla.spark.runner.pipeline_run import store
    from ottla.spark.runner.tables import CatalogTables, TableError

    place = order.place
    tables = store(
        spark, order.pipeline, directory=place.directory, table=place.table, table_format=place.format, checkpoints=place.checkpoints
    )
    if isinstance(tables, CatalogTables) and not tables.outlives_session:
        raise TableError(
            f"the catalog of {place.table} is in memory, and would end with this command: set spark.sql.catalogImplementation=hive"
            " in spark-defaults.conf, or name a table of a catalog that is configured there (spark.sql.catalog.NAME)"
        )
    return tables


def _batch(run: "PipelineRun", bar: Bar) -> dict[str, Any]:
    tracker = run.tables.spark.sparkContext.statusTracker()
    return run.batch(lambda table: bar.show(table, lambda: tasks_done(tracker)))


def _stream(run: "PipelineRun", order: PipelineOrder, bar: Bar) -> dict[str, Any]:
    from ottla.spark.runner.pipeline_run import PipelineStream

    [limits] = run.inputs.offsets(run.pipeline).values()
    planned = sum(end for _, end in limits.values())
    is_endless = order.mode == "stream"
    stream = PipelineStream(run, {} if is_endless else {"maxOffsetsPerTrigger": str(OFFSETS_PER_TRIGGER_MAX)})
    ending = threading.Event()
    # A flag, not an exception: Spark may be in the middle of a micro-batch, which ends first.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ending.set())
    query = stream.start({"processingTime": f"{order.every_s} seconds"} if is_endless else {"availableNow": True})
    bar.show("following (Ctrl-C ends it)" if is_endless else "reading", lambda: min(1.0, end_offsets(query.lastProgress) / max(1, planned)))
    while query.isActive and not ending.wait(order.every_s if is_endless else 0.1):
        if is_endless:
            stream.refresh()
    query.stop()
    failure = query.exception()
    if failure is not None:
        raise failure
    bar.show("the tables are made", lambda: tasks_done(run.tables.spark.sparkContext.statusTracker()))
    return stream.refresh()


def _as_text(order: PipelineOrder, run: "PipelineRun", outputs: Mapping[str, Any]) -> str:
    from ottla.spark.runner.text_table import overview_text

    lines = [f"{table}: {frame.count()} rows in {run.tables.path(table)}" for table, frame in outputs.items()]
    first = next(iter(outputs.values()))
    overview = overview_text(order.pipeline, first, width=Console().width, limit=order.limit, since_ms=order.since_ms)
    return overview + "\n" + "\n".join(lines)


def _as_json(order: PipelineOrder, run: "PipelineRun", outputs: Mapping[str, Any], started_s: float) -> str:
    kind = "path" if order.place.table is None else "table"
    tables = {name: {kind: run.tables.path(name), "rows": frame.count()} for name, frame in outputs.items()}
    seconds = round(time.monotonic() - started_s, 3)
    return json.dumps({"pipeline": order.name, "mode": order.mode, "tables": tables, "seconds": seconds}, indent=1)


@contextmanager
def _sentences() -> Iterator[None]:
    """Failures that a user can fix become a sentence; others are raised as they are."""
    from ottla.client.errors import ClientError
    from ottla.protocol.errors import PeerError
    from ottla.spark.runner.inputs import InputError
    from ottla.spark.sessions import SessionError

    try:
        yield
    except (InputError, SessionError, ClientError, PeerError, ValueError) as error:
        raise click.ClickException(str(error)) from error
    except Exception as error:
        sentence = own_sentence(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error
