"""A worker process's pool of Fetchers: connections, and records for the next micro-batch, outlive a task.

One Fetcher for each ClientSettings, used by one task at a time. It decides how long an idle Fetcher stays open and how many bytes are
buffered for the next micro-batch. Tasks decide what to fetch, and what missing records mean.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from ottla.client.fetch.fetcher import Fetcher
from ottla.client.settings import ClientSettings
from ottla.core.client.fetch_values import FetchedRecords, FetchRange
from ottla.core.model import TopicPartition

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
