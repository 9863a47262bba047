"""A pipeline as a stream: each micro-batch appends to tables, from which the other tables are derived from time to time.

A micro-batch has a folder of its own in each table, by its number. Repeated after a crash it replaces that folder, so that a stream which
continues from its checkpoint adds no row twice. A stream without a checkpoint starts from the beginning, with empty tables.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ottla.spark.pipelines import Pipeline
from ottla.spark.runner.inputs import TOPICS
from ottla.spark.runner.pipeline_run import PipelineRun, run
from ottla.spark.runner.tables import TableError


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
