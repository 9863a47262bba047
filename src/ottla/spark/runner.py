"""Runs a pipeline: tables in, steps in their order, tables out. The only place where a pipeline meets a source or a folder.

A run on a cluster has two halves: tables to which every part of the input only adds (`Pipeline.appended`), and what is made of all that
these hold. A batch writes both anew; a stream (ottla.spark.streaming) adds to the first. What is computed is the pipeline's own business.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ottla.spark.inputs import ClusterInputs
from ottla.spark.pipelines import Pipeline
from ottla.spark.tables import Tables

GROUP = "group"


def run(pipeline: Pipeline, inputs: Mapping[str, DataFrame], wanted: Iterable[str] | None = None) -> dict[str, DataFrame]:
    """Tables of the pipeline, its outputs unless others are `wanted`, not computed yet: DataFrames to DataFrames.

    `inputs` may hold the table of a step as well, which is then left out.
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
    """A pipeline on a cluster, with its tables. `groups`: only these, where a table has groups; none means all."""

    pipeline: Pipeline
    inputs: ClusterInputs
    tables: Tables
    groups: tuple[str, ...] = ()

    @property
    def checkpoint(self) -> str:
        """Where a stream keeps how far it is: beside its tables, by the name of the first."""
        return self.tables.path(f"_checkpoint_{next(iter(self.pipeline.outputs))}")

    def batch(self, on_table: Callable[[str], None] = lambda _: None, given: Mapping[str, DataFrame] | None = None) -> dict[str, DataFrame]:
        """Read what is there now, replace every table, and hand back the outputs as they were written; `on_table` hears of each before.

        `given` are tables of steps that somebody else has made. A stream that kept its tables here begins anew afterwards.
        Raises InputError, ClientError, ValueError, or what Spark raises.
        """
        frames = self.inputs.read(self.pipeline, self.inputs.offsets(self.pipeline)) | dict(given or {})
        self.tables.remove(self.checkpoint)
        for name, frame in run(self.pipeline, frames, self.pipeline.appended).items():
            on_table(name)
            self.tables.write(name, self.of_groups(frame), self.pipeline.appended[name])
        return self.derive(frames, on_table)

    def derive(self, measured: Mapping[str, DataFrame], on_table: Callable[[str], None] = lambda _: None) -> dict[str, DataFrame]:
        """Make every other table from those that are kept, and hand back the outputs as they were written."""
        kept = {name: self.tables.read(name, schema) for name, schema in self.pipeline.appended.items()}
        outputs = run(self.pipeline, {**measured, **kept})
        for name, frame in outputs.items():
            if name not in kept:
                on_table(name)
                outputs[name] = self.tables.write(name, self.of_groups(frame), self.pipeline.outputs[name])
        return outputs

    def of_groups(self, frame: DataFrame) -> DataFrame:
        """The rows of the groups that are asked for."""
        return frame.where(F.col(GROUP).isin(*self.groups)) if self.groups and GROUP in frame.columns else frame


def run_on_cluster(spark: SparkSession, pipeline: Pipeline, *, bootstrap_servers: str, directory: str) -> dict[str, DataFrame]:
    """Run a pipeline on what is there now, and keep its tables under `directory`: the outputs as they were written.

    `spark` must know the format "ottla" (see ottla.spark.session). Raises as PipelineRun.batch does.
    """
    inputs = ClusterInputs(spark=spark, bootstrap_servers=bootstrap_servers)
    return PipelineRun(pipeline=pipeline, inputs=inputs, tables=Tables(spark, directory)).batch()
