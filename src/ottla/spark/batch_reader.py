"""A batch query's reader: it asks the brokers where the topics begin and end, plans ranges, and hands the tasks to the workers.

It runs in Spark's planner and fetches no records; what a task does is task_reading.
"""

import logging
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.consumer.cluster import EARLIEST, LATEST, Cluster
from ottla.consumer.patience import patiently
from ottla.core.model import TopicPartition
from ottla.spark import task_reading
from ottla.spark.options import OptionError, SourceOptions
from ottla.spark.planning import plan_ranges
from ottla.spark.ranges import OffsetRange, ReadTask, group_into_tasks
from ottla.spark.schemas import KAFKA_WITH_HEADERS

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("ottla.spark")


class BatchReader(DataSourceReader):
    """Plans in the driver (`partitions`), reads in the tasks (`read`); it is pickled in between."""

    def __init__(self, options: SourceOptions, schema: StructType, *, tasks_max: int | None = None) -> None:
        self._options = options
        self._columns = _checked_columns(schema)
        self._tasks_max = tasks_max

    def partitions(self) -> list[InputPartition]:
        """One task for each partition that has records to read. Raises ClientError, DataLossError or OptionError."""
        options = self._options
        with Cluster(options.bootstrap_servers, client_id=options.client_id, timeout_ms=options.request_timeout_ms) as cluster:
            earliest, latest = patiently(cluster, lambda: _limits(cluster, options.topics))
        planned = plan_ranges(options.starting, options.ending, earliest, latest, fail_on_data_loss=options.fail_on_data_loss)
        for warning in planned.warnings:
            log.warning(warning)
        ranges = [OffsetRange(*partition, start, end) for partition, start, end in planned.ranges]
        return list(group_into_tasks(ranges, self._tasks_max))

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """The records of a task. Raises as task_reading.read does."""
        if not isinstance(partition, ReadTask):
            return iter(())  # Spark's stand-in where there are no partitions at all
        return task_reading.read(task_reading.ReadSettings(self._options, self._columns), partition)


def _limits(cluster: Cluster, topics: tuple[str, ...]) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    partitions = [TopicPartition(topic, number) for topic, numbers in cluster.partitions(topics).items() for number in numbers]
    return cluster.offsets(partitions, EARLIEST), cluster.offsets(partitions, LATEST)


def _checked_columns(schema: StructType) -> tuple[str, ...]:
    types: dict[str, Any] = {field.name: field.dataType for field in KAFKA_WITH_HEADERS.fields}
    for field in schema.fields:
        if not field.nullable:
            raise OptionError(f"The column {field.name} cannot be declared NOT NULL: Spark would believe it, and no record is checked.")
        if types.get(field.name) != field.dataType:
            columns = ", ".join(f"{name} {kind.simpleString()}" for name, kind in types.items())
            raise OptionError(f"There is no column {field.name} {field.dataType.simpleString()}; the columns are {columns}.")
    return tuple(schema.fieldNames())
