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
    from ottla.spark.sink import BatchSink, StreamSink
    from ottla.spark.stream_reader import StreamReader


class OttlaDataSource(DataSource):
    """Spark finds it by itself where ottla is installed (`pyspark_ottla`)."""

    tasks_max: ClassVar[int | None] = None
    """Most tasks of a query; None: one for each range. Sessions that know their cores register a subclass that says so."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The Kafka source's columns, or those of group records (`decode`). Raises OptionError."""
        from ottla.spark.columns import source_schema
        from ottla.spark.options import parse_options

        return source_schema(parse_options(self.options))

    def reader(self, schema: StructType) -> "BatchReader":
        """A reader of the columns of `schema`. Raises OptionError."""
        from ottla.spark.batch_reader import BatchReader
        from ottla.spark.filtered_reader import FilteredBatchReader, is_pushing
        from ottla.spark.options import Query, parse_options

        reader = FilteredBatchReader if is_pushing() else BatchReader
        return reader(parse_options(self.options, Query.BATCH), schema, tasks_max=self.tasks_max)

    def streamReader(self, schema: StructType) -> "StreamReader":
        """A stream's reader of the columns of `schema`. Raises OptionError."""
        from ottla.spark.options import Query, parse_options
        from ottla.spark.stream_reader import StreamReader

        return StreamReader(parse_options(self.options, Query.STREAM), schema, tasks_max=self.tasks_max)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchSink":
        """A writer of rows of `schema`. Raises OptionError."""
        from ottla.spark.sink import batch_sink

        return batch_sink(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamSink":
        """A stream's writer of rows of `schema`; an output mode that would replace rows appends them. Raises OptionError."""
        from ottla.spark.sink import stream_sink

        return stream_sink(self.options, schema)
