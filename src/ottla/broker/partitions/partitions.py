"""The partitions of the brokers of this process: each one's log, opened at first use, and the settings of that log.

Settings come from the topic, the broker or Kafka's defaults, and change in open logs as well. Worker threads open logs, since that may take
seconds: one opening for a partition at a time, shared by all requests that wait for it; only a partition that has no files yet is ready at
once. The event loop takes over the opened log; until then no other thread uses it. After a crash all logs are opened before the start ends.
A partition whose log cannot be opened is offline: `get` raises StorageError, and the log is opened again later.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from functools import partial
from typing import Any, Final, Generic, NamedTuple, TypeVar

from ottla.broker.partitions.log_loading import Borrowed, Loaded, LogLoader, find_partitions, log_missing
from ottla.broker.partitions.offset_checkpoints import OffsetCheckpoints
from ottla.broker.partitions.partition import Partition
from ottla.broker.partitions.removals import DeletedDirectories, DeletedTopic, Removals
from ottla.log.file_system import Files
from ottla.log.partition_log import PartitionLog
from ottla.log.settings import LogSettings
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.records import NO_LEADER
from ottla.metadata.topics import Topic
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

_RENEWED_PER_ITERATION: Final = 256
"""Open logs that take over changed settings before the event loop continues with other work."""


def log_settings(cluster_metadata: ClusterMetadata, topic: Topic) -> LogSettings:
    """The settings of a topic's logs, from the topic, the broker or Kafka's defaults."""

    def number(name: str) -> int:
        return cluster_metadata.number_in_force(topic, name)

    def text(name: str) -> str:
        return str(cluster_metadata.parsed_value(topic, name))

    policy, dirty_ratio = (
        cluster_metadata.parsed_value(topic, "cleanup.policy"),
        cluster_metadata.parsed_value(topic, "min.cleanable.dirty.ratio"),
    )
    assert isinstance(policy, tuple)
    assert isinstance(dirty_ratio, float)

    return LogSettings(
        segment_bytes=number("segment.bytes"),
        segment_ms=number("segment.ms"),
        segment_jitter_ms=number("segment.jitter.ms"),
        segment_index_bytes=number("segment.index.bytes"),
        index_interval_bytes=number("index.interval.bytes"),
        max_message_bytes=number("max.message.bytes"),
        message_timestamp_type=text("message.timestamp.type"),
        message_timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
        message_timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
        compression_type=text("compression.type"),
        compression_gzip_level=number("compression.gzip.level"),
        compression_lz4_level=number("compression.lz4.level"),
        compression_zstd_level=number("compression.zstd.level"),
        cleanup_policy=",".join(policy),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        flush_messages=number("flush.messages"),
        flush_ms=number("flush.ms"),
        min_cleanable_dirty_ratio=dirty_ratio,
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        delete_retention_ms=number("delete.retention.ms"),
        producer_id_expiration_ms=cluster_metadata.configs.broker_number("producer.id.expiration.ms"),
    )


class TopicLogSettings:
    """Remembers each topic's settings until they change. `renewing`: gives open logs their new settings; None when none is left."""

    def __init__(self, cluster_metadata: ClusterMetadata) -> None:
        self._cluster_metadata = cluster_metadata
        self._settings: dict[str, LogSettings] = {}
        self._changed: deque[Partition] = deque()
        self.renewing: asyncio.Task[None] | None = None

    def of(self, topic: Topic) -> LogSettings:
        """The present settings of the topic's logs."""
        settings = self._settings.get(topic.name)
        if settings is None:
            settings = self._settings[topic.name] = log_settings(self._cluster_metadata, topic)
        return settings

    def forget(self, topic_name: str) -> None:
        """The topic was deleted."""
        self._settings.pop(topic_name, None)

    def change(self, topic: Topic | None, partitions: Iterable[Partition]) -> None:
        """A topic's settings have changed (None: those of all): give them to open partitions, in several iterations of the event loop."""
        if topic is None:
            self._settings.clear()
            self._changed.clear()
        else:
            self.forget(topic.name)
        self._changed.extend(partitions)
        if self.renewing is None:
            self._renew()
            if self._changed:
                self.renewing = asyncio.get_running_loop().create_task(self._renew_rest())

    def _renew(self) -> None:
        for _ in range(min(len(self._changed), _RENEWED_PER_ITERATION)):
            partition = self._changed.popleft()
            topic = self._cluster_metadata.topics.get(partition.name.topic)
            if topic is not None and not partition.deleted:
                partition.log.settings = self.of(topic)
                partition.settings_changed()

    async def _renew_rest(self) -> None:
        while self._changed:
            await asyncio.sleep(0)
            self._renew()
        self.renewing = None


log = logging.getLogger(__name__)
T = TypeVar("T")


class NotOpen(StorageError):
    """The partition is being opened: `get` has a result once `opening` is done. A client that gets this error tries again."""

    def __init__(self, message: str, opening: "asyncio.Future[None]") -> None:
        super().__init__(message)
        self.opening = opening


class Opening(Generic[T]):
    """What is to be done: `load` in a worker thread, then `loaded` with its result or `failed` on the loop.

    `is_wanted`: the partition is to be kept open; else its log is borrowed for one call.
    """

    __slots__ = ("failed", "is_wanted", "load", "loaded")

    def __init__(
        self, load: Callable[[], T], loaded: Callable[[T, bool], None], failed: Callable[[StorageError, bool], None], *, is_wanted: bool
    ) -> None:
        self.load = load
        self.loaded = loaded
        self.failed = failed
        self.is_wanted = is_wanted


class Openings:
    """Belongs to the loop."""

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self._under_way: dict[TopicPartition, tuple[Opening[object], asyncio.Task[None]]] = {}

    def __contains__(self, name: TopicPartition) -> bool:
        return name in self._under_way

    def wanted(self, name: TopicPartition) -> "asyncio.Task[None] | None":
        """The opening that is under way, after which the partition is now to be kept open; None when there is none."""
        known = self._under_way.get(name)
        if known is None:
            return None
        known[0].is_wanted = True
        return known[1]

    def start(self, name: TopicPartition, opening: Opening[T], *, after: "asyncio.Future[None] | None") -> "asyncio.Task[None]":
        """Start an opening when `after` is done. The task never raises."""
        assert name not in self._under_way, "one opening for a partition at a time"
        task = asyncio.get_running_loop().create_task(self._run(name, opening, after))
        self._under_way[name] = opening, task  # type: ignore[assignment]
        return task

    def under_way(self) -> "list[asyncio.Task[None]]":
        """All that have not ended."""
        return [task for _, task in self._under_way.values()]

    def take_out(self, names: Iterable[TopicPartition]) -> "Sequence[asyncio.Task[None]]":
        """The openings of a topic that was deleted: from now on another one for the same name may start."""
        if not self._under_way:
            return ()
        return [known[1] for name in names if (known := self._under_way.pop(name, None)) is not None]

    def close(self) -> None:
        """Return when no thread opens anything any more; openings that have not begun are dropped."""
        self._executor.shutdown(wait=True, cancel_futures=True)

    async def _run(self, name: TopicPartition, opening: Opening[T], after: "asyncio.Future[None] | None") -> None:
        try:
            if after is not None:
                await asyncio.wait([after])
            result = await asyncio.get_running_loop().run_in_executor(self._executor, opening.load)
        except StorageError as error:
            opening.failed(error, opening.is_wanted)
        except Exception as error:
            log.exception("%s-%d could not be opened", *name)
            opening.failed(StorageError(f"{name.topic}-{name.partition} could not be opened: {error!r}"), opening.is_wanted)
        else:
            opening.loaded(result, opening.is_wanted)
        finally:
            known = self._under_way.get(name)
            if known is not None and known[0] is opening:
                del self._under_way[name]


RETRY_MS = 5_000
"""A partition that could not be opened is tried again after this time."""
PROGRESS_S = 5
"""How often the progress of opening or closing all logs is logged."""
OPENINGS_AT_ONCE: Final = 64
"""Partitions that one request opens at a time, so that other requests' partitions need not wait for all of them."""
_SYNC_THREADS = 8
_OPENING_THREADS = 4
_CLOSE_THREADS_MIN = 8
"""Closing waits for the disk, not for the processor: more threads than cores make it shorter."""


class _Offline(NamedTuple):
    """Why a partition could not be opened, and when to try again."""

    reason: str
    retry_at_ms: int


class Partitions:
    """Every partition that has been used since the start, by name.

    After a clean end one is opened when it is first used. The cleaner uses all partitions of compacted topics at its first check, and they
    stay open; retention borrows the others. `executor`: where logs are opened and directories renamed, instead of in threads of its own.
    """

    def __init__(
        self,
        files: Files,
        cluster_metadata: ClusterMetadata,
        clock: Callable[[], int],
        checkpoints: OffsetCheckpoints,
        removals: Removals,
        executor: Executor | None = None,
    ) -> None:
        self._cluster_metadata = cluster_metadata
        self._clock = clock
        self._checkpoints = checkpoints
        self._loader = LogLoader(files, clock, checkpoints)
        self._open: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, _Offline] = {}
        self.unopened: set[TopicPartition] = set()
        """Partitions that are not open and have files, or had some: `get` has them opened first. Some may belong to no topic any more."""
        self._settings = TopicLogSettings(cluster_metadata)
        self._is_closed = False
        self._executor = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="ottla-sync")
        executor = executor or ThreadPoolExecutor(_OPENING_THREADS, thread_name_prefix="ottla-opening")
        self._openings = Openings(executor)
        self._directories = DeletedDirectories(files, removals, executor, self._moved)

    # --- one partition

    def get(self, topic: Topic, number: int) -> Partition | None:
        """The partition; None when there is no such number. Raises StorageError when it is offline, NotOpen while it is being opened."""
        partition = self._open.get(TopicPartition(topic.name, number))
        if partition is None and 0 <= number < len(topic.leaders):
            partition = self._not_open(topic, number)
        return partition

    def by_name(self, topic: str, number: int) -> Partition | None:
        """As `get`, for a topic by name; None when there is no such topic."""
        partition = self._open.get(TopicPartition(topic, number))
        if partition is None:
            known = self._cluster_metadata.topics.get(topic)
            partition = None if known is None else self.get(known, number)
        return partition

    async def open(self, topic: Topic, number: int) -> Partition | None:
        """As `get`, when the partition is open; None too when its topic was deleted meanwhile."""
        try:
            return self.get(topic, number)
        except NotOpen as error:
            await asyncio.wait([error.opening])
        return self.get(topic, number) if self._is_current(topic) else None

    async def open_all(self, wanted: Sequence[tuple[Topic, int]]) -> None:
        """Return when each of these partitions is open, offline or gone."""
        for first in range(0, len(wanted), OPENINGS_AT_ONCE):
            openings = []
            for topic, number in wanted[first : first + OPENINGS_AT_ONCE]:
                try:
                    self.get(topic, number)
                except NotOpen as error:
                    openings.append(error.opening)
                except StorageError:
                    continue  # it is offline: `get` raises the reason
            if openings:
                await asyncio.wait(openings)

    def is_ready(self, topic: Topic, number: int) -> bool:
        """Whether `get` has a result at once, or an error that is not NotOpen."""
        name = TopicPartition(topic.name, number)
        return name not in self.unopened or name in self._offline or self._is_closed

    def _not_open(self, topic: Topic, number: int) -> Partition | None:
        name = TopicPartition(topic.name, number)
        if self._is_closed:
            raise StorageError(f"{name.topic}-{name.partition} is not opened: the broker has stopped")
        if not self._is_current(topic):
            return None
        offline = self._offline.get(name)
        if offline is not None:
            if self._clock() >= offline.retry_at_ms:
                self._opening(topic, number)
            raise StorageError(offline.reason)
        if name not in self.unopened:
            return self._take(topic, number, self._loader.new(topic, number, self._settings.of(topic)))
        raise NotOpen(f"{name.topic}-{name.partition} is being opened: try again", self._opening(topic, number))

    def _opening(self, topic: Topic, number: int) -> "asyncio.Task[None]":
        """The opening of the partition; started unless it is under way."""
        name = TopicPartition(topic.name, number)
        under_way = self._openings.wanted(name)
        if under_way is not None:
            return under_way
        opening = Opening(
            partial(self._loader.load, topic, number, self._settings.of(topic)),
            lambda loaded, _: self._loaded(topic, number, loaded),
            lambda error, _: self._set_offline(topic, number, error),
            is_wanted=True,
        )
        return self._openings.start(name, opening, after=self._directories.moving(topic.name))

    def _is_current(self, topic: Topic) -> bool:
        """Whether the topic was not deleted; another one may have its name."""
        return self._cluster_metadata.topics.get(topic.name) is topic

    def _loaded(self, topic: Topic, number: int, loaded: Loaded) -> None:
        """A worker thread has opened the log: it is in use from now on, unless its topic was deleted meanwhile."""
        name = TopicPartition(topic.name, number)
        if not self._is_current(topic) or self._is_closed:
            return
        if name in self._offline:
            log.warning("%s-%d could be opened and takes records again", *name)
        self._take(topic, number, loaded.log)

    def _take(self, topic: Topic, number: int, partition_log: PartitionLog) -> Partition:
        name = TopicPartition(topic.name, number)
        self._offline.pop(name, None)
        self.unopened.discard(name)
        partition = self._open[name] = Partition(name, partition_log, self._executor, leader=topic.leaders[number])
        # Both may have changed while the log was opened.
        partition_log.leader_epoch = topic.leader_epochs[number]
        partition_log.settings = self._settings.of(topic)
        return partition

    def _set_offline(self, topic: Topic, number: int, error: StorageError) -> None:
        name = TopicPartition(topic.name, number)
        if not self._is_current(topic):
            return
        before = self._offline.get(name)
        self._offline[name] = _Offline(str(error), self._clock() + RETRY_MS)
        if before is None or before.reason != str(error):
            log.error("%s-%d is offline: %s", *name, error)

    # --- all of them

    def in_use(self, name: TopicPartition) -> Partition | None:
        """The partition, if it is open: nothing is opened."""
        return self._open.get(name)

    def opened(self) -> tuple[Partition, ...]:
        """Those in use."""
        return tuple(self._open.values())

    def offline(self) -> dict[TopicPartition, str]:
        """Why which partitions take no records."""
        reasons = {name: offline.reason for name, offline in self._offline.items()}
        return reasons | {each.name: each.log.failure for each in self._open.values() if each.log.failure is not None}

    def all(self) -> Iterator[tuple[Topic, int]]:
        """Topic and number of every partition that has files, in use or not; those that are added or removed meanwhile may be missed."""
        for name in tuple(self.unopened | self._open.keys()):
            topic = self._cluster_metadata.topics.get(name.topic)
            if topic is not None and name.partition < len(topic.leaders):
                yield topic, name.partition

    async def borrow(self, topic: Topic, number: int, use: Callable[[PartitionLog], T]) -> T:
        """What `use` returns for a partition's log: on the loop where it is open, else in a worker thread that opens it for this call.

        The log is kept open if it was changed, or `get` was called for it meanwhile. Raises StorageError.
        """
        name = TopicPartition(topic.name, number)
        under_way = self._openings.wanted(name)
        if under_way is not None:
            await asyncio.wait([under_way])
        partition = self._open.get(name)
        if not self._is_current(topic) or self._is_closed:
            raise StorageError(f"{name.topic}-{name.partition} does not exist any more")
        if partition is not None:
            return use(partition.log)
        if name in self._offline:
            raise StorageError(self._offline[name].reason)
        outcome: list[T | StorageError] = []

        def used(borrowed: Borrowed[T], is_wanted: bool) -> None:
            outcome.append(borrowed.result)
            if is_wanted or borrowed.is_changed:
                self._loaded(topic, number, borrowed.loaded)

        def failed(error: StorageError, is_wanted: bool) -> None:
            outcome.append(error)
            if is_wanted:
                self._set_offline(topic, number, error)

        opening = Opening(partial(self._loader.lend, topic, number, self._settings.of(topic), use), used, failed, is_wanted=False)
        await asyncio.wait([self._openings.start(name, opening, after=self._directories.moving(topic.name))])
        if isinstance(outcome[0], StorageError):
            raise outcome[0]
        return outcome[0]

    def leader_changed(self, topic: Topic, number: int) -> None:
        """Another broker leads a partition now, by the cluster metadata."""
        partition = self._open.get(TopicPartition(topic.name, number))
        if partition is not None:
            partition.leader_changed(topic.leaders[number], topic.leader_epochs[number])

    def settings_changed(self, topic: Topic | None = None) -> None:
        """Give the open logs of a topic (None: of all) its present settings."""
        if topic is None:
            self._settings.change(None, self._open.values())
        else:
            names = (TopicPartition(topic.name, number) for number in range(len(topic.leaders)))
            self._settings.change(topic, [partition for name in names if (partition := self._open.get(name)) is not None])

    def delete(self, topic: Topic) -> None:
        """Rename the files of a topic that the cluster metadata has removed, so that they are removed later, and wake waiting fetches.

        None of it is found by its name from now on; the rest is done off the event loop (`when_moved`). The checkpoints forget it in memory
        only: they must be written before a topic of the same name is created (deletions.py). Files that cannot be renamed are logged and
        stay.
        """
        names = [TopicPartition(topic.name, number) for number in range(len(topic.leaders))]
        in_use = [partition for name in names if (partition := self._open.pop(name, None)) is not None]
        for partition in in_use:
            partition.deleted, partition.leader = True, NO_LEADER  # fetch sessions that hold it use the next one of that name
        for name in names:
            self._offline.pop(name, None)
        used_names = {partition.name for partition in in_use}
        unused = [name for name in names if name in self.unopened and name not in used_names]
        self.unopened |= used_names  # until they are renamed
        self._settings.forget(topic.name)
        self._loader.forget(names)
        self._checkpoints.forget(names)
        self._directories.move(
            DeletedTopic(
                name=topic.name,
                in_use=in_use,
                unused=unused,
                openings=self._openings.take_out(names),
                delete_delay_ms=self._cluster_metadata.number_in_force(topic, "file.delete.delay.ms"),
            )
        )

    def _moved(self, names: Iterable[TopicPartition]) -> None:
        """The directories of these were renamed. Those that a worker thread already opens for a new topic stay, until it has opened
        them."""
        self.unopened.difference_update(name for name in names if name not in self._openings)

    async def when_moved(self, topic_names: Iterable[str]) -> None:
        """Return when no files of deleted topics have these names any more."""
        moving = [task for name in topic_names if (task := self._directories.moving(name)) is not None]
        if moving:
            await asyncio.wait(moving)

    # --- start and end

    def find(self, directories: Iterable[str]) -> tuple[list[tuple[Topic, int]], list[str]]:
        """Which partitions there are, of the names in the data directory; and the names that belong to no topic."""
        found = find_partitions(directories, self._cluster_metadata.topics)
        self.unopened |= found.names
        self._loader.found = {(topic.topic_id, number) for topic, number in found.partitions}
        log_missing(self._checkpoints, self._cluster_metadata.topics, self.unopened)
        return found.partitions, found.unknown

    def recover(self, found: Iterable[tuple[Topic, int]], *, threads: int) -> None:
        """Open partitions in worker threads, and return when all are open or offline."""
        with ThreadPoolExecutor(threads, thread_name_prefix="ottla-recovery") as pool:
            jobs = {pool.submit(self._loader.load, topic, number, self._settings.of(topic)): (topic, number) for topic, number in found}
            try:
                _wait_with_progress(jobs, "recovering after a crash: %d of %d partitions are open")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for job, (topic, number) in jobs.items():
            try:
                self._loaded(topic, number, job.result())
            except StorageError as error:
                self._set_offline(topic, number, error)

    async def settle(self) -> None:
        """Wait for the syncs, openings and renames that run off the event loop, and for what follows from them; failures are logged."""
        while tasks := self._under_way():
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    log.error("work on a partition failed", exc_info=outcome)

    def _under_way(self) -> list[asyncio.Future[None]]:
        syncs = [task for partition in self._open.values() for task in (partition.flushing, partition.syncing) if task is not None]
        renewing = [self._settings.renewing] if self._settings.renewing else []
        return [task for task in (*syncs, *renewing, *self._openings.under_way(), *self._directories.under_way()) if not task.done()]

    def close(self, *, threads: int = _CLOSE_THREADS_MIN) -> bool:
        """Close every log cleanly, several at a time; whether all were. One that cannot be closed is logged, and the others are closed."""
        self._is_closed = True
        self._openings.close()
        is_clean = not self._offline
        with ThreadPoolExecutor(max(threads, _CLOSE_THREADS_MIN), thread_name_prefix="ottla-closing") as pool:
            jobs = {pool.submit(partition.log.close, clean=True): partition for partition in self._open.values()}
            _wait_with_progress(jobs, "stopping: %d of %d partitions are closed")
        for job, partition in jobs.items():
            partition.stop_timer()
            try:
                job.result()
            except StorageError as error:
                is_clean = False
                log.error("%s-%d is not closed cleanly and will be recovered: %s", *partition.name, error)
            self._checkpoints.note(partition.name, partition.log)
        self._open.clear()
        self._executor.shutdown(wait=True)
        return is_clean


def _wait_with_progress(jobs: Iterable[Future[Any]], sentence: str) -> None:
    """Wait for worker threads, and log the progress when it takes long."""
    left = set(jobs)
    count, waited_s = len(left), 0
    while left := wait(left, PROGRESS_S).not_done:
        waited_s += PROGRESS_S
        log.warning("%s, after %d s", sentence % (count - len(left), count), waited_s)
