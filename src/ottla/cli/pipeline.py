"""One pipeline run for a person at a terminal: Spark is started, the run watched, and what it wrote shown in short.

It decides what is shown and which failures become a sentence; what is read, computed and written is ottla.spark's.
"""

import json
import signal
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import click
from rich.console import Console

from ottla.cli.pipeline.progress import Bar, end_offsets, tasks_done
from ottla.cli.pipeline.spark_failures import own_sentence

if TYPE_CHECKING:
    from ottla.spark.pipelines import Pipeline
    from ottla.spark.runner.pipeline_run import PipelineRun
    from ottla.spark.runner.tables import TableStore

OFFSETS_PER_TRIGGER_MAX: Final = 5_000_000
"""With --available-now: what a micro-batch reads at most, so that much history neither fills the disk's spill nor hides how far it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where the tables go: a directory, or a table of a catalog with a directory for checkpoints."""

    directory: str | None = None
    table: str | None = None
    format: str
    checkpoints: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What was asked for. `mode` is "batch", "available-now" or "stream"; `limit` and `since_ms` are of the rows that are shown."""

    name: str
    pipeline: "Pipeline"
    bootstrap_servers: str
    properties: Mapping[str, str]
    place: Place
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


def execute(order: Order) -> None:
    """Run it and show what came of it. Raises click.ClickException with a sentence."""
    started_s = time.monotonic()
    with _sentences():
        from ottla.spark.runner.inputs import ClusterInputs, check_brokers
        from ottla.spark.runner.pipeline_run import PipelineRun
        from ottla.spark.sessions import OWN_QUERIES, session

        # Before Spark starts, which takes its time.
        check_brokers(order.bootstrap_servers, order.properties)
        console = Console(stderr=True)
        with Bar(console, "Spark starts") as bar:
            spark = session(f"ottla pipeline {order.name}", master=f"local[{order.cores}]", settings=OWN_QUERIES)
            inputs = ClusterInputs(spark=spark, bootstrap_servers=order.bootstrap_servers, properties=order.properties, topics=order.topics)
            try:
                run = PipelineRun(pipeline=order.pipeline, inputs=inputs, tables=_tables(spark, order), groups=order.groups)
                outputs = _batch(run, bar) if order.mode == "batch" else _stream(run, order, bar)
                report = _as_json(order, run, outputs, started_s) if order.as_json else _as_text(order, run, outputs)
            finally:
                spark.stop()
    click.echo(report)


def _tables(spark: Any, order: Order) -> "TableStore":
    from ottla.spark.runner.catalog_tables import CatalogTables
    from ottla.spark.runner.pipeline_run import store
    from ottla.spark.runner.tables import TableError

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


def _stream(run: "PipelineRun", order: Order, bar: Bar) -> dict[str, Any]:
    from ottla.spark.runner.pipeline_stream import PipelineStream

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


def _as_text(order: Order, run: "PipelineRun", outputs: Mapping[str, Any]) -> str:
    from ottla.spark.runner.overviews import overview_text

    lines = [f"{table}: {frame.count()} rows in {run.tables.path(table)}" for table, frame in outputs.items()]
    first = next(iter(outputs.values()))
    overview = overview_text(order.pipeline, first, width=Console().width, limit=order.limit, since_ms=order.since_ms)
    return overview + "\n" + "\n".join(lines)


def _as_json(order: Order, run: "PipelineRun", outputs: Mapping[str, Any], started_s: float) -> str:
    kind = "path" if order.place.table is None else "table"
    tables = {name: {kind: run.tables.path(name), "rows": frame.count()} for name, frame in outputs.items()}
    seconds = round(time.monotonic() - started_s, 3)
    return json.dumps({"pipeline": order.name, "mode": order.mode, "tables": tables, "seconds": seconds}, indent=1)


@contextmanager
def _sentences() -> Iterator[None]:
    """Failures that a user can fix become a sentence; others are raised as they are."""
    from ottla.client.errors import ClientError
    from ottla.core.errors import PeerError
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
