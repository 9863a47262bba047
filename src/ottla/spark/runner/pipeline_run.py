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
from ottla.spark.runner.inputs import ClusterInputs
from ottla.spark.runner.tables import Tables
from ottla.spark.runner.worker_files import write_in_workers

GROUP = "group"
Offsets = Mapping[str, Mapping[TopicPartition, tuple[int, int]]]
"""First and end offset of each partition, by the input."""


def run(pipeline: Pipeline, inputs: Mapping[str, DataFrame], wanted: Iterable[str] | None = None) -> dict[str, DataFrame]:
    """Lazy DataFrames for the tables of a pipeline: its outputs, or the `wanted` ones.

    `inputs` may hold the table of a step as well, which then replaces the step.
    """
    frames = dict(inputs)
    steps = {step.output: step for step in pipeline.steps}

    def make(name: str) -> DataFrame:
        if name not in frames:
            frames[name] = steps[name].function(*(make(each) for each in steps[name].inputs))
        return frames[name]

    return {name: make(name) for name in (pipeline.outputs if wanted is None else wanted)}


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineRun:
    """A pipeline on a cluster, with its tables. `groups` filters tables with a group column; none means all."""

    pipeline: Pipeline
    inputs: ClusterInputs
    tables: Tables
    groups: tuple[str, ...] = ()

    @property
    def checkpoint(self) -> str:
        """The path of a stream's checkpoint: beside its tables, with the name of the first output."""
        return self.tables.path(f"_checkpoint_{next(iter(self.pipeline.outputs))}")

    def batch(self, on_table: Callable[[str], None] = lambda _: None, given: Mapping[str, DataFrame] | None = None) -> dict[str, DataFrame]:
        """Read the topics up to now, replace every table, and return the stored outputs; `on_table` is called before each write.

        `given` are tables of steps that the caller has. A stream with tables here starts from the beginning afterwards.
        Raises InputError, ClientError, ValueError, or what Spark raises.
        """
        offsets = self.inputs.offsets(self.pipeline)
        folders = {name: self.tables.folder(name) for name in self.pipeline.outputs}
        local = {name: folder for name, folder in folders.items() if folder is not None}
        if self.pipeline.in_arrow is not None and len(local) == len(folders) and not (self.groups or given):
            return self._batch_in_workers(offsets, local, on_table)
        frames = self.inputs.read(self.pipeline, offsets) | dict(given or {})
        self.tables.remove(self.checkpoint)
        for name, frame in run(self.pipeline, frames, self.pipeline.appended).items():
            on_table(name)
            self.tables.write(name, self.of_groups(frame), self.pipeline.appended[name])
        return self.derive(frames, on_table)

    def _batch_in_workers(self, offsets: Offsets, folders: Mapping[str, Path], on_table: Callable[[str], None]) -> dict[str, DataFrame]:
        """A batch whose tables the workers write themselves, in one pass."""
        assert self.pipeline.in_arrow is not None
        [(name, limits)] = offsets.items()
        reader = self.inputs.reader(name, self.pipeline.inputs[name], limits)
        for path in (self.checkpoint, *map(self.tables.path, folders)):
            self.tables.remove(path)
        on_table(next(iter(folders)))
        write_in_workers(self.tables.spark, reader, self.pipeline.in_arrow, folders)
        return {name: self.tables.read(name, schema) for name, schema in self.pipeline.outputs.items()}

    def derive(self, measured: Mapping[str, DataFrame], on_table: Callable[[str], None] = lambda _: None) -> dict[str, DataFrame]:
        """Derive all other tables from the appended ones, and return the stored outputs."""
        appended = {name: self.tables.read(name, schema) for name, schema in self.pipeline.appended.items()}
        outputs = run(self.pipeline, {**measured, **appended})
        for name, frame in outputs.items():
            if name not in appended:
                on_table(name)
                outputs[name] = self.tables.write(name, self.of_groups(frame), self.pipeline.outputs[name])
        return outputs

    def of_groups(self, frame: DataFrame) -> DataFrame:
        """The rows of the selected groups."""
        return frame.where(F.col(GROUP).isin(*self.groups)) if self.groups and GROUP in frame.columns else frame


def run_on_cluster(spark: SparkSession, pipeline: Pipeline, *, bootstrap_servers: str, directory: str) -> dict[str, DataFrame]:
    """Run a pipeline on the topics up to now, and store its tables under `directory`; returns the stored outputs.

    `spark` must have the format "ottla" (see ottla.spark.session). Raises as PipelineRun.batch does.
    """
    inputs = ClusterInputs(spark=spark, bootstrap_servers=bootstrap_servers)
    return PipelineRun(pipeline=pipeline, inputs=inputs, tables=Tables(spark, directory)).batch()
