"""The work of a task, in a worker: fetches the records of its ranges, yields them as Arrow batches, and keeps the connections.

The planner has chosen the ranges. The task decides whether missing records end the query. It commits nothing.

A worker process has a pool of Fetchers, one for each ClientSettings and used by one task at a time: connections, and records for the next
micro-batch, outlive a task. The pool decides how long an idle Fetcher stays open and how many bytes are buffered for the next micro-batch.
Tasks decide what to fetch, and what missing records mean.
"""

import gc
import logging
import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark import TaskContext

from ottla.client.admin.client import AdminClient
from ottla.client.admin.values import EARLIEST, LATEST, DescribedTopic, Failure
from ottla.client.errors import ClientError, OffsetOutOfRangeError, TopicRecreatedError, UnknownTopicError
from ottla.client.fetch.fetch_values import FetchedRecords, FetchRange
from ottla.client.fetch.fetcher import Fetcher
from ottla.client.settings import ClientSettings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition
from ottla.spark.options.source_options import GROUP_RECORDS, ReadSettings
from ottla.spark.source.planning import DataLossError, ReadTask

if TYPE_CHECKING:
    import pyarrow


IDLE_S_MAX: Final = 300
"""A Fetcher that no task has used for so long is closed. Spark ends idle workers earlier; this is for workers with other tasks."""

PREFETCH_BYTES_MAX: Final = 32 * 1024 * 1024
"""Most record bytes that one worker buffers for the next micro-batch, for each ClientSettings."""


class BufferedFetcher:
    """A Fetcher with a buffer of surplus records, which the next read gets first."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._buffered: dict[tuple[str, TopicPartition], FetchedRecords] = {}
        self._buffered_bytes = 0

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        """Every record of every range, as Fetcher.read."""
        to_fetch = []
        for each in ranges:
            buffered = self._take(each)
            if buffered is not None:
                yield buffered
                each = each._replace(start=buffered.next_offset)
            if each.start < each.end:
                to_fetch.append(each)
        if to_fetch:
            yield from self._fetcher.read(to_fetch)

    def buffer(self, wanted: FetchRange, fetched: FetchedRecords) -> None:
        """Buffer `fetched`, which goes beyond its range: the next range probably begins there. Needs a topic id, which names the topic."""
        if not wanted.topic_id or len(fetched.records) > PREFETCH_BYTES_MAX:
            return
        if not isinstance(fetched.records.obj, bytes):
            # A copy, since the view holds the whole answer, with all other partitions' records.
            fetched = fetched._replace(records=memoryview(bytes(fetched.records)))
        self._drop((wanted.topic_id, wanted.partition))
        self._buffered[wanted.topic_id, wanted.partition] = fetched
        self._buffered_bytes += len(fetched.records)
        while self._buffered_bytes > PREFETCH_BYTES_MAX:
            # The oldest first: other workers probably read these partitions now.
            self._drop(next(iter(self._buffered)))

    def prefetch(self, done: Sequence[FetchRange]) -> None:
        """Request as much again as these ranges behind their ends, which the next task will probably read.

        Only where surplus records came with a range: otherwise it ended at the end of the partition.
        """
        following = []
        for each in done:
            buffered = self._buffered.get((each.topic_id, each.partition))
            end = each.end + (each.end - each.start)
            if buffered is not None and buffered.next_offset < end:
                following.append(each._replace(start=buffered.next_offset, end=end))
        if following:
            self._fetcher.prefetch(following)

    def close(self) -> None:
        """Close the connections."""
        self._fetcher.close()

    def _take(self, wanted: FetchRange) -> FetchedRecords | None:
        """The buffered beginning of a range. Buffered records that do not fit are dropped."""
        buffered = self._drop((wanted.topic_id, wanted.partition))
        if buffered is None or not buffered.position <= wanted.start < buffered.next_offset:
            return None
        return buffered._replace(position=wanted.start)

    def _drop(self, key: tuple[str, TopicPartition]) -> FetchedRecords | None:
        buffered = self._buffered.pop(key, None)
        if buffered is not None:
            self._buffered_bytes -= len(buffered.records)
        return buffered


class _Idle(NamedTuple):
    fetcher: BufferedFetcher
    since_s: float


class FetcherPool:
    """The FetcherPool of one process. `clock_s` gives seconds that never run backwards; `process_id` changes in a forked process."""

    def __init__(
        self,
        make: Callable[[ClientSettings], Fetcher] = Fetcher,
        clock_s: Callable[[], float] = time.monotonic,
        process_id: Callable[[], int | None] = lambda: multiprocessing.current_process().pid,
    ) -> None:
        self._make = make
        self._clock_s = clock_s
        self._process_id = process_id
        self._idle: dict[ClientSettings, _Idle] = {}
        self._owner = process_id()

    @contextmanager
    def acquire(self, settings: ClientSettings) -> Iterator[BufferedFetcher]:
        """A Fetcher for one task. It goes back to the pool, unless the task fails or stops early: then a response may be in flight."""
        fetcher = self._take(settings)
        try:
            yield fetcher
        except BaseException:
            fetcher.close()
            raise
        self._release(settings, fetcher)

    def _take(self, settings: ClientSettings) -> BufferedFetcher:
        if self._owner != self._process_id():
            # Forked: the connections are the parent's, and two processes on one connection would read each other's answers.
            self._idle, self._owner = {}, self._process_id()
        now_s = self._clock_s()
        for other in [other for other, idle in self._idle.items() if now_s - idle.since_s > IDLE_S_MAX]:
            self._idle.pop(other).fetcher.close()
        idle = self._idle.pop(settings, None)
        return idle.fetcher if idle else BufferedFetcher(self._make(settings))

    def _release(self, settings: ClientSettings, fetcher: BufferedFetcher) -> None:
        if settings in self._idle:  # two tasks of one process at once: one Fetcher is enough
            fetcher.close()
        else:
            self._idle[settings] = _Idle(fetcher, self._clock_s())


WORKER_FETCHERS: Final = FetcherPool()
"""The pool of this process."""


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
    from ottla.groups.log.arrow.decoder import GroupRecordDecoder
    from ottla.protocol.arrow.decoder import RecordBatchDecoder

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
