"""What a worker process keeps between tasks and micro-batches: its connections, and records that the next micro-batch will ask for.

One Fetcher for each ClientSettings, lent to one task at a time. It decides how long one is kept and how many bytes wait for the next
micro-batch; what is fetched, and what missing records mean, is for whoever borrows it.
"""

import multiprocessing
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, NamedTuple

from ottla.consumer.fetching import Fetcher
from ottla.consumer.settings import ClientSettings
from ottla.core.consuming.ranges import FetchedRecords, FetchRange
from ottla.core.model import TopicPartition

IDLE_S_MAX: Final = 300
"""A Fetcher that no task has used for so long is closed. Spark ends an idle worker earlier; this is for workers that have other work."""

AHEAD_BYTES_MAX: Final = 32 * 1024 * 1024
"""Most record bytes that one worker keeps for the next micro-batch, for one ClientSettings."""


class KeepingFetcher:
    """A Fetcher that first gives what was fetched too much before."""

    def __init__(self, fetcher: Fetcher) -> None:
        self._fetcher = fetcher
        self._kept: dict[tuple[str, TopicPartition], FetchedRecords] = {}
        self._kept_bytes = 0

    def read(self, ranges: Sequence[FetchRange]) -> Iterator[FetchedRecords]:
        """Every record of every range, as Fetcher.read."""
        to_fetch = []
        for each in ranges:
            kept = self._take(each)
            if kept is not None:
                yield kept
                each = each._replace(start=kept.next_offset)
            if each.start < each.end:
                to_fetch.append(each)
        if to_fetch:
            yield from self._fetcher.read(to_fetch)

    def keep(self, wanted: FetchRange, fetched: FetchedRecords) -> None:
        """`fetched` goes beyond the range: the next one will probably begin there. Without a topic id nobody could tell whose they are."""
        if not wanted.topic_id or len(fetched.records) > AHEAD_BYTES_MAX:
            return
        if not isinstance(fetched.records.obj, bytes):
            # A copy, since the view holds the whole answer, with all other partitions' records.
            fetched = fetched._replace(records=memoryview(bytes(fetched.records)))
        self._drop((wanted.topic_id, wanted.partition))
        self._kept[wanted.topic_id, wanted.partition] = fetched
        self._kept_bytes += len(fetched.records)
        while self._kept_bytes > AHEAD_BYTES_MAX:
            # The oldest first: other workers have probably gone on with these partitions.
            self._drop(next(iter(self._kept)))

    def ask_ahead(self, done: Sequence[FetchRange]) -> None:
        """Ask for what probably follows these ranges, as much again, so that it is on its way when the next task comes.

        Only where records beyond a range came with it: else it ended where the partition ends, and there is nothing yet.
        """
        following = []
        for each in done:
            kept = self._kept.get((each.topic_id, each.partition))
            end = each.end + (each.end - each.start)
            if kept is not None and kept.next_offset < end:
                following.append(each._replace(start=kept.next_offset, end=end))
        if following:
            self._fetcher.fetch_ahead(following)

    def close(self) -> None:
        """Close the connections."""
        self._fetcher.close()

    def _take(self, wanted: FetchRange) -> FetchedRecords | None:
        """What is here of the beginning of a range. Dropped where it does not fit."""
        kept = self._drop((wanted.topic_id, wanted.partition))
        if kept is None or not kept.position <= wanted.start < kept.next_offset:
            return None
        return kept._replace(position=wanted.start)

    def _drop(self, key: tuple[str, TopicPartition]) -> FetchedRecords | None:
        kept = self._kept.pop(key, None)
        if kept is not None:
            self._kept_bytes -= len(kept.records)
        return kept


class _Idle(NamedTuple):
    fetcher: KeepingFetcher
    since_s: float


class Fetchers:
    """The Fetchers of one process. `clock_s` gives seconds that never run backwards; `process_id` changes in a forked process."""

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
    def lend(self, settings: ClientSettings) -> Iterator[KeepingFetcher]:
        """A Fetcher for one task. It is kept afterwards, unless the task failed or stopped in between: then answers may be on their way."""
        fetcher = self._take(settings)
        try:
            yield fetcher
        except BaseException:
            fetcher.close()
            raise
        self._put_back(settings, fetcher)

    def _take(self, settings: ClientSettings) -> KeepingFetcher:
        if self._owner != self._process_id():
            # Forked: the connections are the parent's, and two processes on one connection would read each other's answers.
            self._idle, self._owner = {}, self._process_id()
        now_s = self._clock_s()
        for other in [other for other, idle in self._idle.items() if now_s - idle.since_s > IDLE_S_MAX]:
            self._idle.pop(other).fetcher.close()
        idle = self._idle.pop(settings, None)
        return idle.fetcher if idle else KeepingFetcher(self._make(settings))

    def _put_back(self, settings: ClientSettings, fetcher: KeepingFetcher) -> None:
        if settings in self._idle:  # two tasks of one process at once: one Fetcher is enough to keep
            fetcher.close()
        else:
            self._idle[settings] = _Idle(fetcher, self._clock_s())


WORKER: Final = Fetchers()
"""Those of this process."""
