"""Runs a pipeline: tables in, steps in their order, tables out. The only place where a pipeline meets a source or a folder.

It decides where an input comes from (a topic of a cluster); what is computed is the pipeline's own business.
"""

from collections.abc import Mapping
from typing import Final

from pyspark.sql import DataFrame, SparkSession

from ottla.spark.pipelines import Pipeline
from ottla.spark.schemas import GROUP_EVENTS_TOPIC
from ottla.spark.tables import Tables

TOPICS: Final[Mapping[str, str]] = {"group_event_records": GROUP_EVENTS_TOPIC}
"""Inputs that are topics."""


def run(pipeline: Pipeline, inputs: Mapping[str, DataFrame]) -> dict[str, DataFrame]:
    """The pipeline's outputs, not computed yet: DataFrames to DataFrames."""
    frames = {name: inputs[name] for name in pipeline.inputs}
    for step in pipeline.steps:
        frames[step.output] = step.function(*(frames[name] for name in step.inputs))
    return {name: frames[name] for name in pipeline.outputs}


def run_on_cluster(spark: SparkSession, pipeline: Pipeline, *, bootstrap_servers: str, directory: str) -> dict[str, DataFrame]:
    """Read the inputs from their topics, run, and keep each output as a Parquet table under `directory`: the tables as they were written.

    `spark` must know the format "ottla" (see session).
    """
    inputs = {name: read_topic(spark, bootstrap_servers, TOPICS[name]) for name in pipeline.inputs}
    tables = Tables(spark, directory)
    return {name: tables.write(name, frame, pipeline.outputs[name]) for name, frame in run(pipeline, inputs).items()}


def read_topic(spark: SparkSession, bootstrap_servers: str, topic: str) -> DataFrame:
    """All records of a topic, as they are now."""
    options = {"kafka.bootstrap.servers": bootstrap_servers, "subscribe": topic}
    return spark.read.format("ottla").options(**options).load()
