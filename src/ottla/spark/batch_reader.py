"""A batch query's reader: it asks the brokers where the topics begin and end, plans ranges, and hands the tasks to the workers.

It runs in Spark's planner and fetches no records; what a task does is task_reading.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.spark.columns import checked_columns
from ottla.spark.offset_options import EARLIEST, LATEST, Edge
from ottla.spark.offset_reader import OffsetReader
from ottla.spark.option_values import OptionError
from ottla.spark.options import SourceOptions
from ottla.spark.planning import plan_batch, report
from ottla.spark.ranges import OffsetRange, ReadTask, group_into_tasks
from ottla.spark.splitting import split

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
        """What is to be read, one range a partition. Raises as `partitions` does."""
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
            return iter(())  # Spark's stand-in where there are no partitions at all
        from ottla.spark import task_reading  # in the tasks only: it brings the fetch client along

        return task_reading.read(self._settings, partition)


def into_tasks(ranges: list[OffsetRange], options: SourceOptions, tasks_max: int | None) -> list[ReadTask]:
    """Ranges as tasks: split where options say so, and then as many tasks as these are; otherwise at most `tasks_max`, or `maxTasks`."""
    divided = split(ranges, records_max=options.task_records_max, partitions_min=options.partitions_min)
    if options.tasks_max is not None:
        return group_into_tasks(divided, options.tasks_max)
    wants_more = options.task_records_max is not None or options.partitions_min is not None
    return group_into_tasks(divided, None if wants_more else tasks_max)
