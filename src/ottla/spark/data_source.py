"""`spark.read.format("ottla")`: Kafka topics as a Spark table, by Arrow, with the columns and options of Spark's own Kafka source.

It delegates: `options` checks options, the readers plan ranges, `task_reading` fetches and decodes records. Spark prunes no columns for
Python sources: `.schema("offset bigint, value binary")` selects columns, and only these are built. Spark loads this module in every
session, also without a query on it, so methods import the heavy modules.
"""

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.datasource import DataSource
from pyspark.sql.types import StructType

if TYPE_CHECKING:
    from ottla.spark.sink.writers import BatchSink, StreamSink
    from ottla.spark.source.batch_reader import BatchReader
    from ottla.spark.source.stream_reader import RefusedStreamReader, StreamBase


class OttlaDataSource(DataSource):
    """The format "ottla"; Spark finds it where ottla is installed (`pyspark_ottla`)."""

    tasks_max: ClassVar[int | None] = None
    """Most tasks of a query; None: one for each range. A session that knows its cores registers a subclass with their number."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The Kafka source's columns, or those of group records (`decode`). Raises OptionError."""
        from ottla.spark.options.source_options import parse_options
        from ottla.spark.source.columns import source_schema

        return source_schema(parse_options(self.options))

    def reader(self, schema: StructType) -> "BatchReader":
        """A reader of the columns of `schema`. Raises OptionError."""
        from ottla.spark.options.source_options import Query, parse_options
        from ottla.spark.source.batch_reader import BatchReader, FilteredBatchReader, is_pushing

        reader = FilteredBatchReader if is_pushing() else BatchReader
        return reader(parse_options(self.options, Query.BATCH), schema, tasks_max=self.tasks_max)

    def streamReader(self, schema: StructType) -> "StreamBase | RefusedStreamReader":
        """A stream's reader of the columns of `schema`; with invalid options one that raises OptionError when Spark first calls it."""
        from ottla.spark.options.source_options import Query, parse_options
        from ottla.spark.options.values import OptionError
        from ottla.spark.source.stream_reader import RefusedStreamReader

        try:
            options = parse_options(self.options, Query.STREAM)
            if options.member is not None:
                from ottla.spark.source.member_reader import MemberStreamReader

                return MemberStreamReader(options, schema, tasks_max=self.tasks_max)
            from ottla.spark.source.stream_reader import StreamReader

            return StreamReader(options, schema, tasks_max=self.tasks_max)
        except OptionError as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> "BatchSink":
        """A writer of rows of `schema`. Raises OptionError."""
        from ottla.spark.sink.writers import batch_sink

        return batch_sink(self.options, schema, overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> "StreamSink":
        """A stream's writer of rows of `schema`; an output mode that would replace rows appends them. Raises OptionError."""
        from ottla.spark.sink.writers import stream_sink

        return stream_sink(self.options, schema)
