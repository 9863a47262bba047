"""`spark.read.format("ottla")`: Kafka topics as a Spark table, by Arrow, with the columns and options of Spark's own Kafka source.

It only says who does what: options are checked in `options`, ranges planned by the readers, records fetched and decoded by `task_reading`.
Spark prunes no columns for Python sources: whoever needs two columns says so with `.schema("offset bigint, value binary")`, and only these
are built. Spark loads this file in every session, with or without our queries: what is heavy is imported by the methods.
"""

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from ottla.spark.batch_reader import BatchReader


class OttlaDataSource(DataSource):
    """Spark finds it by itself where ottla is installed (`pyspark_ottla`)."""

    tasks_max: ClassVar[int | None] = None
    """Most tasks of a query; None: one for each range. Sessions that know their cores register a subclass that says so."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The Kafka source's columns. Raises OptionError."""
        from ottla.spark.options import parse_options
        from ottla.spark.schemas import KAFKA, KAFKA_WITH_HEADERS

        return KAFKA_WITH_HEADERS if parse_options(self.options).include_headers else KAFKA

    def reader(self, schema: StructType) -> "BatchReader":
        """A reader of the columns of `schema`. Raises OptionError."""
        from ottla.spark.batch_reader import BatchReader
        from ottla.spark.options import parse_options

        return BatchReader(parse_options(self.options), schema, tasks_max=self.tasks_max)
