"""Reads of tasks, in the workers: the fetch client and the decoder of Spark's source, without rows of Spark."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ottla.spark.migration.values import MigrationError
from ottla.spark.options.source_options import ReadSettings
from ottla.spark.source.tasks import ReadTask

if TYPE_CHECKING:
    import pyarrow as pa


def task_numbers(numbers: "Iterator[pa.RecordBatch]") -> Iterator[int]:
    """The numbers in the rows of a DataFrame of `spark.range`."""
    for batch in numbers:
        yield from batch.column(0).to_pylist()


def read(settings: ReadSettings, task: ReadTask) -> "Iterator[pa.RecordBatch]":
    """The records of a task, each batch of one partition; none is empty. Raises MigrationError for lost records, other ClientErrors."""
    from ottla.spark.source import task_reading
    from ottla.spark.source.planning import DataLossError

    try:
        yield from (batch for batch in task_reading.read(settings, task) if batch.num_rows)
    except DataLossError as error:
        raise MigrationError(f"{error.__cause__}. To continue with what is there, run the same command again") from error
