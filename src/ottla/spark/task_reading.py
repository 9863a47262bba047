"""What a task does: fetch the records of its ranges and hand them to Spark as Arrow batches.

It runs in Spark's Python workers. It decides what records that turn out to be missing mean for the query; which ranges there are was
decided by the planner, and it commits nothing.
"""

import gc
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from pyspark import TaskContext

from ottla.consumer.admin.client import AdminClient
from ottla.consumer.admin.values import EARLIEST, LATEST, DescribedTopic, Failure
from ottla.consumer.errors import ClientError, OffsetOutOfRangeError, TopicRecreatedError, UnknownTopicError
from ottla.consumer.fetching import FetchedRecords, FetchRange
from ottla.consumer.settings import ClientSettings
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition
from ottla.spark.fetchers import WORKER, Fetchers, KeepingFetcher
from ottla.spark.options import GROUP_RECORDS, ReadSettings
from ottla.spark.planning import DataLossError
from ottla.spark.ranges import ReadTask

if TYPE_CHECKING:
    import pyarrow

log = logging.getLogger("ottla.spark")

Left = dict[TopicPartition, FetchRange]
"""What is still to read: it shrinks as records come."""


def read(
    settings: ReadSettings,
    task: ReadTask,
    *,
    ahead: bool = False,
    fetchers: Fetchers = WORKER,
    admin_client: Callable[[ClientSettings], AdminClient] = AdminClient,
) -> "Iterator[pyarrow.RecordBatch]":
    """The records of a task's ranges. `ahead`: other tasks will ask for what follows them, so keep it and ask for more.

    While Spark works on a batch, the next Fetch is on its way. Raises DataLossError, other ClientErrors, or PeerError on bytes that are no
    records.
    """
    ranges = [FetchRange(TopicPartition(each.topic, each.partition), each.start, each.end, each.topic_id) for each in task.ranges]
    # Without a record for so long a task fails, as the Kafka source's do.
    client = replace(settings.client, default_api_timeout_ms=settings.poll_timeout_ms)
    with fetchers.lend(client) as fetcher:
        for left in _rounds(ranges):
            while left:
                try:
                    yield from _read(fetcher, settings, left, ahead=ahead)
                except (OffsetOutOfRangeError, TopicRecreatedError, UnknownTopicError) as error:
                    if settings.fail_on_data_loss:
                        raise DataLossError(f'{error}. To read what is there, set the option "failOnDataLoss" to false.') from error
                    log.warning(str(error))
                    with admin_client(settings.client) as admin:
                        _skip_lost(left, error, admin)
        if ahead:
            fetcher.ask_ahead(ranges)
    _spare_collections()


def _rounds(ranges: list[FetchRange]) -> list[Left]:
    """What is read together: a partition once, since its name is all that tells whose records came."""
    rounds: list[Left] = []
    for each in ranges:
        free = next((left for left in rounds if each.partition not in left), None)
        if free is None:
            rounds.append(free := {})
        free[each.partition] = each
    return rounds


def _read(fetcher: KeepingFetcher, settings: ReadSettings, left: Left, *, ahead: bool) -> "Iterator[pyarrow.RecordBatch]":
    for fetched in fetcher.read(list(left.values())):
        wanted = left[fetched.partition]
        yield from _decode(settings, wanted, fetched)
        if fetched.next_offset < wanted.end:
            left[fetched.partition] = wanted._replace(start=fetched.next_offset)
            continue
        del left[fetched.partition]
        if ahead and fetched.next_offset > wanted.end:
            fetcher.keep(wanted, fetched)


def _decode(settings: ReadSettings, wanted: FetchRange, fetched: FetchedRecords) -> "Iterator[pyarrow.RecordBatch]":
    # In the task, not in the planner: the kernels are loaded where they run.
    from ottla.columnar.decoder import RecordBatchDecoder
    from ottla.columnar.group_records import GroupRecordDecoder

    topic, partition = wanted.partition
    decoder: GroupRecordDecoder | RecordBatchDecoder
    if settings.decode == GROUP_RECORDS:
        decoder = GroupRecordDecoder(partition, columns=settings.columns, rows_max=settings.rows_max)
    else:
        decoder = RecordBatchDecoder(topic, partition, columns=settings.columns, rows_max=settings.rows_max)
    return decoder.decode(fetched.records, offset_start=wanted.start, offset_end=wanted.end, aborted=fetched.aborted)


@cache
def _spare_collections() -> None:
    """Spark's workers collect garbage after every task: what was loaded for the first one is none, and takes 80 ms to look through.

    Once a process. ottla.spark.daemon has done most of it already.
    """
    if TaskContext.get() is not None:
        gc.collect()
        gc.freeze()


def _skip_lost(left: Left, error: ClientError, admin: AdminClient) -> None:
    """Go on behind the records that are gone. Raises `error` where none are, so that nobody tries for ever."""
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
