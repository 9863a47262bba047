"""Runs a pipeline: input tables, steps in their order, output tables. It connects pipelines with sources and storage.

A run on a cluster makes two kinds of tables: those to which new input only appends rows (`Pipeline.appended`), and those derived from all
rows of the first kind. A batch writes both; a stream (`pipeline_stream`) appends to the first kind, and derives the second now and then.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.core.model import TopicPartition
from ottla.spark.pipelines import Pipeline
from ottla.spark.runner import stored_files
from ottla.spark.runner.catalog_tables import CatalogTables
from ottla.spark.runner.inputs import ClusterInputs
from ottla.spark.runner.tables import PARQUET, Tables, TableStore
from ottla.spark.runner.worker_files import write_in_workers

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
            stored_files.remove(self.tables.spark, self.checkpoint)

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
