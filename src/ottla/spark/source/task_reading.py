"""The work of a task: fetch the records of its ranges and yield them as Arrow batches.

It runs in Spark's Python workers. The planner has chosen the ranges. The task decides whether missing records end the query. It commits
nothing.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from pyspark import TaskContext

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, DescribedTopic, Failure
from ottla.client.errors import ClientError, OffsetOutOfRangeError, TopicRecreatedError, UnknownTopicError
from ottla.client.settings import ClientSettings
from ottla.core.client.fetch_values import FetchedRecords, FetchRange
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.options.source_options import GROUP_RECORDS, ReadSettings
from ottla.spark.source.fetcher_pool import WORKER_FETCHERS, BufferedFetcher, FetcherPool
from ottla.spark.source.planning import DataLossError
from ottla.spark.source.tasks import ReadTask

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger(__name__)

Left = dict[TopicPartition, FetchRange]
"""The ranges that are still to read, by partition."""


def read(
    settings: ReadSettings,
    task: ReadTask,
    *,
    prefetch: bool = False,
    fetchers: FetcherPool = WORKER_FETCHERS,
    admin_client: Callable[[ClientSettings], AdminClient] = AdminClient,
) -> "Iterator[pyarrow.RecordBatch]":
    """The records of a task's ranges. `prefetch`: buffer and request records behind them, for later tasks.

    While Spark works on a batch, the next Fetch is in flight. Raises DataLossError, other ClientErrors, or PeerError on bytes that are no
    records.
    """
    ranges = [FetchRange(TopicPartition(each.topic, each.partition), each.start, each.end, each.topic_id) for each in task.ranges]
    # A task fails after so long without a record, as those of Spark's own Kafka source do.
    client = replace(settings.client, default_api_timeout_ms=settings.poll_timeout_ms)
    with fetchers.acquire(client) as fetcher:
        for left in _distinct_partitions(ranges):
            while left:
                try:
                    yield from _read(fetcher, settings, left, prefetch=prefetch)
                except (OffsetOutOfRangeError, TopicRecreatedError, UnknownTopicError) as error:
                    if settings.fail_on_data_loss:
                        raise DataLossError(f'{error}. To read what is there, set the option "failOnDataLoss" to false.') from error
                    log.warning(str(error))
                    with admin_client(settings.client) as admin:
                        _skip_lost(left, error, admin)
        if prefetch:
            fetcher.prefetch(ranges)
    _spare_collections()


def _distinct_partitions(ranges: list[FetchRange]) -> list[Left]:
    """Groups of ranges to read together, with each partition once per group: received records are matched by partition."""
    groups: list[Left] = []
    for each in ranges:
        free = next((left for left in groups if each.partition not in left), None)
        if free is None:
            groups.append(free := {})
        free[each.partition] = each
    return groups


def _read(fetcher: BufferedFetcher, settings: ReadSettings, left: Left, *, prefetch: bool) -> "Iterator[pyarrow.RecordBatch]":
    for fetched in fetcher.read(list(left.values())):
        wanted = left[fetched.partition]
        yield from _decode(settings, wanted, fetched)
        if fetched.next_offset < wanted.end:
            left[fetched.partition] = wanted._replace(start=fetched.next_offset)
            continue
        del left[fetched.partition]
        if prefetch and fetched.next_offset > wanted.end:
            fetcher.buffer(wanted, fetched)


def _decode(settings: ReadSettings, wanted: FetchRange, fetched: FetchedRecords) -> "Iterator[pyarrow.RecordBatch]":
    # In the task, not in the planner: the kernels are loaded where they run.
    from ottla.columnar.decoding.record_batch_decoder import RecordBatchDecoder
    from ottla.columnar.group_records.decoder import GroupRecordDecoder

    topic, partition = wanted.partition
    decoder: GroupRecordDecoder | RecordBatchDecoder
    if settings.decode == GROUP_RECORDS:
        decoder = GroupRecordDecoder(partition, columns=settings.columns, rows_max=settings.rows_max)
    else:
        decoder = RecordBatchDecoder(topic, partition, columns=settings.columns, rows_max=settings.rows_max)
    return decoder.decode(fetched.records, offset_start=wanted.start, offset_end=wanted.end, aborted=fetched.aborted)


@cache
def _spare_collections() -> None:
    """Exempt loaded modules from the garbage collection that Spark's workers run after every task: to scan them takes 80 ms.

    Once per process; ottla.spark.daemon has done most of it already.
    """
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()


def _skip_lost(left: Left, error: ClientError, admin: AdminClient) -> None:
    """Skip records that are gone. Raises `error` where none are, so that the task does not retry endlessly."""
    if isinstance(error, OffsetOutOfRangeError):
        wanted = left.pop(error.partition)
        earliest, latest = (admin.list_offsets([wanted.partition], edge)[wanted.partition] for edge in (EARLIEST, LATEST))
        rest = wanted._replace(start=max(error.position, earliest), end=min(wanted.end, latest))
        if rest == wanted:
            raise error
        if rest.start < rest.end:
            left[wanted.partition] = rest
        return
    described = admin.describe_topics({partition.topic for partition in left})
    gone = [wanted for wanted in left.values() if not _is_there(wanted, described[wanted.partition.topic])]
    if not gone:
        raise error
    for wanted in gone:
        del left[wanted.partition]


def _is_there(wanted: FetchRange, topic: DescribedTopic | Failure) -> bool:
    if isinstance(topic, Failure):
        return topic.code not in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)  # a refusal is no loss
    return wanted.partition.partition in topic.leaders and wanted.topic_id in ("", topic.topic_id)
