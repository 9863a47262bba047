"""Runs a pipeline once or as a stream: input tables, steps in their order, output tables. It connects pipelines with sources and storage.

A run on a cluster makes two kinds of tables: those to which new input only appends rows (`Pipeline.appended`), and those derived from all
rows of the first kind. A batch writes both. A stream appends to the first kind, and derives the second now and then. Each of its
micro-batches has a folder of its own in each table, by its number. Repeated after a crash it replaces that folder, so that a stream which
continues from its checkpoint adds no row twice. A stream without a checkpoint starts from the beginning, with empty tables.

For pipelines with `in_arrow`, on one machine, workers write tables of Parquet files while they read: the rows never pass through Spark's
JVM, which takes most of the time. Each task writes a file of each table, under a hidden name until it is whole. The package is sent to
workers that lack it.
"""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.streaming.query import StreamingQuery

from ottla.protocol.model import TopicPartition
from ottla.spark.pipelines import Pipeline
from ottla.spark.runner.inputs import TOPICS, ClusterInputs
from ottla.spark.runner.tables import PARQUET, CatalogTables, TableError, Tables, TableStore, remove_stored

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import SparkSession


ROWS_MAX: Final = 250_000
"""Rows of a row group, about: so many are in a worker's memory."""

TEXTS: Final = ("group", "topic", "metadata", "topic_id", "partition", "record_type", "value_version", "leader_epoch")
"""Columns of few values, which are stored by dictionary."""

InArrow = Callable[["Iterable[RecordBatch]"], "Iterator[tuple[str, RecordBatch]]"]


class Reader(Protocol):
    """A reader of Spark's: it plans tasks in the driver, and reads them in the workers."""

    def partitions(self) -> Any:
        """The tasks."""

    def read(self, partition: Any) -> "Iterator[RecordBatch]":
        """The rows of one task."""


def write_in_workers(spark: "SparkSession", reader: Reader, in_arrow: InArrow, folders: Mapping[str, Path]) -> None:
    """Read all tasks, and write each table to its folder, which must be empty. Raises what Spark raises."""
    for folder in folders.values():
        folder.mkdir(parents=True)
    tasks = list(enumerate(reader.partitions()))
    work = partial(write_task, reader=reader, in_arrow=in_arrow, folders=folders)
    spark.sparkContext.parallelize(tasks, max(1, len(tasks))).foreach(work)


def write_task(task: tuple[int, Any], *, reader: Reader, in_arrow: InArrow, folders: Mapping[str, Path]) -> None:
    """Write the files of one task; in a Python worker. A repeated task replaces them."""
    import pyarrow as pa

    # Arrow's own allocator gives every freed column back to the system: that took as long as all the rest.
    pa.set_memory_pool(pa.system_memory_pool())
    number, partition = task
    files = {name: _TableFile(folder / f"part-{number:05}.parquet") for name, folder in folders.items()}
    for name, batch in in_arrow(reader.read(partition)):
        files[name].add(batch)
    for file in files.values():
        file.finish()


class _TableFile:
    """A Parquet file that is written in row groups."""

    def __init__(self, path: Path) -> None:
        self._path, self._hidden = path, path.with_name(f".{path.name}")
        self._writer: Any = None
        self._batches: list[RecordBatch] = []
        self._rows = 0

    def add(self, batch: "RecordBatch") -> None:
        """Add rows."""
        self._batches.append(batch)
        self._rows += batch.num_rows
        if self._rows >= ROWS_MAX:
            self._flush()

    def finish(self) -> None:
        """Write what is left, and give the file its name; no file without rows."""
        self._flush()
        if self._writer is not None:
            self._writer.close()
            self._hidden.rename(self._path)

    def _flush(self) -> None:
        if not self._batches:
            return
        import pyarrow as pa
        from pyarrow.parquet import ParquetWriter

        rows = pa.Table.from_batches(self._batches)
        if self._writer is None:
            few = [name for name in rows.schema.names if name in TEXTS]
            self._writer = ParquetWriter(self._hidden, rows.schema, use_dictionary=few, compression="snappy")
        self._writer.write_table(rows)
        self._batches, self._rows = [], 0


GROUP = "group"
Offsets = Mapping[str, Mapping[TopicPartition, tuple[int, int]]]
"""First and end offset of each partition, by the input."""


def run(pipeline: Pipeline, inputs: Mapping[str, DataFrame], wanted: Iterable[str] | None = None) -> dict[str, DataFrame]:
    """Lazy DataFrames for the tables of a pipeline: its outputs, or the `wanted` ones.

    `inputs` may hold the table of a step as well, which then replaces the step.
    """
    frames = dict(inputs)
    return {name: made(pipeline, name, frames) for name in (pipeline.outputs if wanted is None else wanted)}


def made(pipeline: Pipeline, name: str, frames: dict[str, DataFrame]) -> DataFrame:
    """One table out of `frames`; if it is not there, it is made of others, and all that are made are added."""
    if name not in frames:
        step = next(step for step in pipeline.steps if step.output == name)
        frames[name] = step.function(*(made(pipeline, each, frames) for each in step.inputs))
    return frames[name]


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """A pipeline on a cluster, with its tables. `groups` filters tables with a group column; none means all."""

    pipeline: Pipeline
    inputs: ClusterInputs
    tables: TableStore
    groups: tuple[str, ...] = ()

    @property
    def checkpoint(self) -> str | None:
        """The path of a stream's checkpoint, by the name of the first output; None where the tables have none."""
        return self.tables.checkpoint(next(iter(self.pipeline.outputs)))

    def batch(self, on_table: Callable[[str], None] = lambda _: None, given: Mapping[str, DataFrame] | None = None) -> dict[str, DataFrame]:
        """Read the topics up to now, replace every table, and return the stored outputs; `on_table` is called before each write.

        `given` are tables of steps that the caller has. A stream with tables here starts from the beginning afterwards.
        Raises InputError, ClientError, TableError, another ValueError, or what Spark raises.
        """
        offsets = self.inputs.offsets(self.pipeline)
        folders = {name: self.tables.folder(name) for name in self.pipeline.outputs}
        local = {name: folder for name, folder in folders.items() if folder is not None}
        if self.pipeline.in_arrow is not None and len(local) == len(folders) and not (self.groups or given):
            return self._batch_in_workers(offsets, local, on_table)
        frames = self.inputs.read(self.pipeline, offsets) | dict(given or {})
        self._remove_checkpoint()
        for name, frame in run(self.pipeline, frames, self.pipeline.appended).items():
            on_table(name)
            self.tables.write(name, self.of_groups(frame), self.pipeline.appended[name])
        return self.derive(frames, on_table)

    def _batch_in_workers(self, offsets: Offsets, folders: Mapping[str, Path], on_table: Callable[[str], None]) -> dict[str, DataFrame]:
        """A batch whose tables the workers write themselves, in one pass."""
        assert self.pipeline.in_arrow is not None
        [(name, limits)] = offsets.items()
        reader = self.inputs.reader(name, self.pipeline.inputs[name], limits)
        self._remove_checkpoint()
        for table in folders:
            self.tables.clear(table, self.pipeline.outputs[table])
        on_table(next(iter(folders)))
        write_in_workers(self.tables.spark, reader, self.pipeline.in_arrow, folders)
        return {name: self.tables.read(name, schema) for name, schema in self.pipeline.outputs.items()}

    def _remove_checkpoint(self) -> None:
        if self.checkpoint is not None:
            remove_stored(self.tables.spark, self.checkpoint)

    def derive(self, measured: Mapping[str, DataFrame], on_table: Callable[[str], None] = lambda _: None) -> dict[str, DataFrame]:
        """Derive all other tables from the appended ones, and return the stored outputs."""
        appended = {name: self.tables.read(name, schema) for name, schema in self.pipeline.appended.items()}
        frames: dict[str, DataFrame] = {**measured, **appended}
        reused = [made(self.pipeline, name, frames).persist() for name in self.pipeline.reused]
        try:
            return {name: appended[name] if name in appended else self._derived(name, frames, on_table) for name in self.pipeline.outputs}
        finally:
            for frame in reused:
                frame.unpersist()

    def _derived(self, name: str, frames: dict[str, DataFrame], on_table: Callable[[str], None]) -> DataFrame:
        """Make and store one output."""
        on_table(name)
        stored = self.tables.write(name, self.of_groups(made(self.pipeline, name, frames)), self.pipeline.outputs[name])
        if not self.groups:
            # Outputs that are made of this one need not compute it again.
            frames[name] = stored
        return stored

    def of_groups(self, frame: DataFrame) -> DataFrame:
        """The rows of the selected groups."""
        return frame.where(F.col(GROUP).isin(*self.groups)) if self.groups and GROUP in frame.columns else frame


def store(
    spark: SparkSession,
    pipeline: Pipeline,
    *,
    directory: str | None = None,
    table: str | None = None,
    table_format: str = PARQUET,
    checkpoints: str | None = None,
) -> TableStore:
    """Where a pipeline's tables go: to folders of `directory`, or into a catalog, the first output as `table` (CATALOG.SCHEMA.TABLE).

    `checkpoints` is a folder for the progress of streams into a catalog. Raises TableError where the catalog or the schema does not exist,
    and ValueError unless one of `directory` and `table` is given.
    """
    if table is None and directory is not None:
        return Tables(spark, directory, table_format)
    if table is None or directory is not None:
        raise ValueError("give either a directory or a table")
    tables = CatalogTables(spark=spark, pipeline=pipeline, table=table, format=table_format, checkpoints=checkpoints)
    tables.check()
    return tables


def run_on_cluster(
    spark: SparkSession,
    pipeline: Pipeline,
    *,
    bootstrap_servers: str,
    directory: str | None = None,
    table: str | None = None,
    table_format: str = PARQUET,
) -> dict[str, DataFrame]:
    """Run a pipeline on the topics up to now, and store its tables under `directory`, or as `table` of a catalog; returns the outputs.

    `spark` must have the format "ottla" (see ottla.spark.session). Raises as `store` and PipelineRun.batch do.
    """
    inputs = ClusterInputs(spark=spark, bootstrap_servers=bootstrap_servers)
    tables = store(spark, pipeline, directory=directory, table=table, table_format=table_format)
    return PipelineRun(pipeline=pipeline, inputs=inputs, tables=tables).batch()


def followed(pipeline: Pipeline) -> str:
    """The input that a stream of the pipeline follows."""
    [name] = [name for name in pipeline.inputs if name in TOPICS]
    return name


def follows(pipeline: Pipeline, table: str) -> bool:
    """Whether a table is derived from the input that is followed."""
    inputs = {step.output: step.inputs for step in pipeline.steps}
    return table == followed(pipeline) or any(follows(pipeline, each) for each in inputs.get(table, ()))


@dataclass(frozen=True, slots=True)
class PipelineStream:
    """A pipeline that follows its topic. `options` are the source's, and override the run's."""

    run: PipelineRun
    options: Mapping[str, str]
    # Spark moves a table's files one by one: a concurrent read would find a part of a micro-batch, or fail where a part is replaced.
    _writing: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def start(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        """Start the query, with Spark's trigger: `{"availableNow": True}` or `{"processingTime": "10 seconds"}`. Raises TableError."""
        name = followed(self.run.pipeline)
        records = self.run.inputs.stream(name, self.run.pipeline.inputs[name], self.options)
        if self.run.checkpoint is None:
            raise TableError("a stream into a catalog needs a folder for its checkpoint")
        writer = records.writeStream.option("checkpointLocation", self.run.checkpoint)
        return writer.trigger(**trigger).foreachBatch(self.add).start()

    def add(self, records: DataFrame, batch_id: int) -> None:
        """Append one micro-batch to the tables that follow the topic."""
        pipeline, tables = self.run.pipeline, self.run.tables
        followers = [name for name in pipeline.appended if follows(pipeline, name)]
        with self._writing:
            for name, frame in run(pipeline, {followed(pipeline): records}, followers).items():
                if batch_id == 0:
                    tables.clear(name, pipeline.appended[name])
                else:
                    tables.check_continued(name)
                tables.append(name, self.run.of_groups(frame), pipeline.appended[name], batch_id)

    def refresh(self) -> dict[str, DataFrame]:
        """Measure end offsets (appended as a part named by the time in ms), and derive the other tables; returns the outputs.

        It may run beside the query: a lock makes it see whole micro-batches only.
        """
        pipeline, tables = self.run.pipeline, self.run.tables
        with self._writing:
            # After the last micro-batch and before the next: no commit in the tables is younger than the ends, and so beyond them.
            measured = self.run.inputs.measure(pipeline)
            for name, schema in pipeline.appended.items():
                if not follows(pipeline, name):
                    tables.append(name, run(pipeline, measured, [name])[name], schema, self.run.inputs.now_ms())
            return self.run.derive(measured)
