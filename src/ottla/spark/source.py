"""`spark.read.format("ottla")`: Kafka topics as a Spark table, by Arrow, with the columns and options of Spark's own Kafka source.

The driver's planner asks the brokers for offsets and makes one task a partition; each task fetches and decodes its own range. Spark prunes
no columns for Python sources: whoever needs two columns says so with `.schema("offset bigint, value binary")`, and only these are
built. It commits nothing, and reads batches only.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from ottla.consumer.cluster import EARLIEST, LATEST, Cluster
from ottla.consumer.errors import OffsetOutOfRangeError
from ottla.consumer.patience import patiently
from ottla.consumer.reading import PartitionReader
from ottla.core.model import TopicPartition
from ottla.spark.options import OptionError, SourceOptions, parse_options
from ottla.spark.planning import DataLossError, plan_ranges
from ottla.spark.schemas import KAFKA, KAFKA_WITH_HEADERS

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("ottla.spark")


@dataclass
class PartitionRange(InputPartition):
    """One task: the records of a partition with start <= offset < end."""

    topic: str
    partition: int
    start: int
    end: int


class OttlaDataSource(DataSource):
    """Register with `spark.dataSource.register(OttlaDataSource)`; sessions of ottla.spark.session know it already."""

    @classmethod
    def name(cls) -> str:
        return "ottla"

    def schema(self) -> StructType:
        """The Kafka source's columns. Raises OptionError."""
        return KAFKA_WITH_HEADERS if parse_options(self.options).include_headers else KAFKA

    def reader(self, schema: StructType) -> "OttlaReader":
        """A reader of the columns of `schema`. Raises OptionError."""
        return OttlaReader(parse_options(self.options), schema)


class OttlaReader(DataSourceReader):
    """Plans in the driver (`partitions`), reads in the tasks (`read`); it is pickled in between."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options = options
        self._columns = _checked_columns(schema)

    def partitions(self) -> list[InputPartition]:
        """One task for each partition that has records to read. Raises ClientError, DataLossError or OptionError."""
        options = self._options
        with self._cluster() as cluster:
            earliest, latest = patiently(cluster, lambda: _limits(cluster, options.topics))
        planned = plan_ranges(options.starting, options.ending, earliest, latest, fail_on_data_loss=options.fail_on_data_loss)
        for warning in planned.warnings:
            log.warning(warning)
        return [PartitionRange(*partition, start, end) for partition, start, end in planned.ranges]

    def read(self, partition: InputPartition) -> "Iterator[pyarrow.RecordBatch]":
        """The records of one range as Arrow batches. Raises DataLossError, ClientError, or PeerError on bytes that are no records."""
        if not isinstance(partition, PartitionRange):
            return  # Spark's stand-in where there are no partitions at all
        # In the task, not in the planner: the kernels are loaded where they run.
        from ottla.columnar import RecordBatchDecoder, scan

        options, position = self._options, partition.start
        topic_partition = TopicPartition(partition.topic, partition.partition)
        decoder = RecordBatchDecoder(*topic_partition, columns=self._columns)
        with self._cluster() as cluster:
            reader = PartitionReader(
                cluster, topic_partition, bytes_max=options.partition_fetch_bytes_max, wait_ms_max=options.fetch_max_wait_ms
            )
            while position < partition.end:
                try:
                    for batches in reader.read(position, partition.end, scan):
                        yield from decoder.decode(batches, offset_start=position, offset_end=partition.end)
                        position = batches.next_offset or position
                except OffsetOutOfRangeError as error:
                    position = self._after_loss(cluster, partition, position, error)

    def _cluster(self) -> Cluster:
        options = self._options
        return Cluster(options.bootstrap_servers, client_id=options.client_id, timeout_ms=options.request_timeout_ms)

    def _after_loss(self, cluster: Cluster, partition: PartitionRange, position: int, error: OffsetOutOfRangeError) -> int:
        """Where to go on after records were found missing, or DataLossError."""
        if self._options.fail_on_data_loss:
            raise DataLossError(f'{error}. To read what is there, set the option "failOnDataLoss" to false.') from error
        log.warning(str(error))
        topic_partition = TopicPartition(partition.topic, partition.partition)
        earliest = patiently(cluster, lambda: cluster.offsets([topic_partition], EARLIEST))[topic_partition]
        return earliest if position < earliest else partition.end


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
