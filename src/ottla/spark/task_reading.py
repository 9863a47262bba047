"""What a task does: fetch the records of its ranges and hand them to Spark as Arrow batches.

It runs in Spark's Python workers. It decides what records that turn out to be missing mean for the query; which ranges there are was
decided by the planner, and it commits nothing.
"""

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ottla.consumer.cluster import EARLIEST, Cluster
from ottla.consumer.errors import OffsetOutOfRangeError
from ottla.consumer.patience import patiently
from ottla.consumer.reading import PartitionReader
from ottla.core.model import TopicPartition
from ottla.spark.options import SourceOptions
from ottla.spark.planning import DataLossError
from ottla.spark.ranges import OffsetRange, ReadTask

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("ottla.spark")


@dataclass(frozen=True, slots=True)
class ReadSettings:
    """What every task of a query needs to know."""

    options: SourceOptions
    columns: tuple[str, ...]


def read(settings: ReadSettings, task: ReadTask) -> "Iterator[pyarrow.RecordBatch]":
    """The records of a task's ranges. Raises DataLossError, ClientError, or PeerError on bytes that are no records."""
    options = settings.options
    with Cluster(options.bootstrap_servers, client_id=options.client_id, timeout_ms=options.request_timeout_ms) as cluster:
        for each in task.ranges:
            yield from _read_range(cluster, settings, each)


def _read_range(cluster: Cluster, settings: ReadSettings, wanted: OffsetRange) -> "Iterator[pyarrow.RecordBatch]":
    # In the task, not in the planner: the kernels are loaded where they run.
    from ottla.columnar import RecordBatchDecoder, scan

    options, position = settings.options, wanted.start
    partition = TopicPartition(wanted.topic, wanted.partition)
    decoder = RecordBatchDecoder(*partition, columns=settings.columns)
    reader = PartitionReader(cluster, partition, bytes_max=options.partition_fetch_bytes_max, wait_ms_max=options.fetch_max_wait_ms)
    while position < wanted.end:
        try:
            for batches in reader.read(position, wanted.end, scan):
                yield from decoder.decode(batches, offset_start=position, offset_end=wanted.end)
                position = batches.next_offset or position
        except OffsetOutOfRangeError as error:
            if options.fail_on_data_loss:
                raise DataLossError(f'{error}. To read what is there, set the option "failOnDataLoss" to false.') from error
            log.warning(str(error))
            earliest = patiently(cluster, lambda: cluster.offsets([partition], EARLIEST))[partition]
            position = earliest if position < earliest else wanted.end
