"""A pipeline as a stream: each micro-batch adds to the tables that are kept, and from time to time the others are made of them.

The micro-batch has a folder of its own in each table, by its number: repeated after a crash it replaces itself, and a stream that goes on
from its checkpoint adds nothing twice. A stream without a checkpoint begins anew, and so do its tables.
"""

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from ottla.spark.inputs import TOPICS
from ottla.spark.pipelines import Pipeline
from ottla.spark.runner import PipelineRun, run


def followed(pipeline: Pipeline) -> str:
    """The input that a stream of the pipeline follows."""
    [name] = [name for name in pipeline.inputs if name in TOPICS]
    return name


def follows(pipeline: Pipeline, table: str) -> bool:
    """Whether a table is made from the input that is followed."""
    inputs = {step.output: step.inputs for step in pipeline.steps}
    return table == followed(pipeline) or any(follows(pipeline, each) for each in inputs.get(table, ()))


@dataclass(frozen=True, slots=True)
class PipelineStream:
    """A pipeline that goes on with its topic. `options` are the source's, on top of the run's own."""

    run: PipelineRun
    options: Mapping[str, str]
    # Spark moves a table's files one by one: whoever reads meanwhile would find some of a micro-batch, or fail where a part is replaced.
    _writing: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def start(self, trigger: Mapping[str, Any]) -> StreamingQuery:
        """Start the query, with Spark's trigger: `{"availableNow": True}` or `{"processingTime": "10 seconds"}`."""
        name = followed(self.run.pipeline)
        records = self.run.inputs.stream(name, self.run.pipeline.inputs[name], self.options)
        writer = records.writeStream.option("checkpointLocation", self.run.checkpoint)
        return writer.trigger(**trigger).foreachBatch(self.add).start()

    def add(self, records: DataFrame, batch_id: int) -> None:
        """One micro-batch: what follows from its records alone goes to the tables that are kept."""
        pipeline, tables = self.run.pipeline, self.run.tables
        kept = [name for name in pipeline.appended if follows(pipeline, name)]
        with self._writing:
            for name, frame in run(pipeline, {followed(pipeline): records}, kept).items():
                if batch_id == 0:
                    tables.remove(tables.path(name))
                tables.append(name, self.run.of_groups(frame), pipeline.appended[name], batch_id)

    def refresh(self) -> dict[str, DataFrame]:
        """Measure what is to be measured (a part of its table under the time in ms), and make the other tables anew: the outputs.

        It may run beside the query, and takes in whole micro-batches only: one of the two waits for the other.
        """
        pipeline, tables = self.run.pipeline, self.run.tables
        with self._writing:
            # After the last micro-batch and before the next: no commit in the tables is younger than the ends, and so beyond them.
            measured = self.run.inputs.measure(pipeline)
            for name, schema in pipeline.appended.items():
                if not follows(pipeline, name):
                    tables.append(name, run(pipeline, measured, [name])[name], schema, self.run.inputs.now_ms())
            return self.run.derive(measured)
