"""The reader of a batch query: requests the offsets of the topics, plans ranges, and makes the tasks.

It runs in Spark's planner and fetches no records: `task_reading` does, in the workers.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.options.positions import EARLIEST, LATEST, Edge
from ottla.spark.options.source_options import SourceOptions
from ottla.spark.options.values import OptionError
from ottla.spark.source.columns import checked_columns
from ottla.spark.source.offset_reader import OffsetReader
from ottla.spark.source.planning import plan_batch, report
from ottla.spark.source.ranges import OffsetRange
from ottla.spark.source.tasks import ReadTask, into_tasks

if TYPE_CHECKING:
    import pyarrow


class BatchReader(DataSourceReader):
    """Plans in the driver (`partitions`), reads in the tasks (`read`); it is pickled in between."""

    def __init__(self, options: SourceOptions, schema: StructType, *, tasks_max: int | None = None) -> None:
        self._options = options
        self._settings = options.read_settings(checked_columns(schema, options))
        self._tasks_max = tasks_max

    def partitions(self) -> list[InputPartition]:
        """The tasks: none empty. Raises ClientError, DataLossError or OptionError."""
        return list(into_tasks(self.ranges(), self._options, self._tasks_max))

    def ranges(self) -> list[OffsetRange]:
        """The ranges to read, one per partition. Raises as `partitions` does."""
        options, reader = self._options, OffsetReader(self._options)
        try:
            starts, _ = reader.resolve(options.starting, is_start=True)
            ends, _ = reader.resolve(options.ending, is_start=False)
            if set(starts.by_partition) != set(ends.by_partition):
                raise OptionError("The topics got or lost partitions while the query was planned: run it again.")
            earliest = starts if options.starting is Edge.EARLIEST else reader.at_edge(EARLIEST, starts)
            latest = ends if options.ending is Edge.LATEST else reader.at_edge(LATEST, starts)
        finally:
            reader.close()
        planned = plan_batch(starts.by_partition, ends.by_partition, earliest, latest.by_partition)
        report(planned.losses, fail_on_data_loss=options.fail_on_data_loss)
        return planned.ranges

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """The records of a task. Raises as task_reading.read does."""
        if not isinstance(partition, ReadTask):
            return iter(())  # Spark's placeholder where there are no partitions
        from ottla.spark.source import task_reading

        return task_reading.read(self._settings, partition)
