"""The work on logs that nobody asks for: retention, expiry of producers, checkpoints, the start after a crash, the marker of a clean end.

As Kafka's LogManager, and by its settings. Which segments go is the log's decision; when to look, and in which thread the disk is touched,
is decided here. The loop does little at a time: one partition, then whoever else wants to run.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, NamedTuple

from ottla.broker.catalogue_log import DIRECTORY as METADATA_DIRECTORY
from ottla.broker.offset_checkpoints import EVERY_FILE, OffsetCheckpoints
from ottla.broker.partitions import Partitions
from ottla.broker.removals import Removals, is_deleted_directory
from ottla.core.catalogue.catalogue import RESERVED_TOPICS, Catalogue, Topic
from ottla.core.config import BrokerConfig
from ottla.core.errors import StorageError
from ottla.core.model import TopicPartition
from ottla.storage.checkpoints import CLEAN_SHUTDOWN_FILE, HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from ottla.storage.files import Files
from ottla.storage.partition_log import PartitionLog

log = logging.getLogger("ottla.broker.logs")

# As Kafka writes it: the epoch of the broker's last registration, by which its controller knows a clean end (KIP-966); -1 without one.
CLEAN_SHUTDOWN: Final = '{{"version":0,"brokerEpoch":{}}}'
_SLEEP_S_MAX: Final = 365 * 86_400
_NAMED_MAX: Final = 10
_METADATA_INTERVAL_MS: Final = 1000
"""So long after a change of topics or settings the disk may not know that it is durable: then damage of it passes for a torn write."""
_SEGMENTS_AT_ONCE: Final = 64
"""Segments of one log that retention renames before the event loop continues with other work."""
_REST: Final = 4
"""Retention has a fifth of the loop's time at most: it rests so many times as long as it took, partition by partition."""


class _Expired(NamedTuple):
    """What retention took from a log. `must_wait`: a full segment must be synced before more may go."""

    paths: tuple[str, ...]
    start_offset: int
    must_wait: bool
    is_complete: bool


class LogManager:
    """Everything periodic about a broker's logs. `open` before anything is served, then `begin`; `close` when nothing is any more."""

    def __init__(
        self,
        files: Files,
        config: BrokerConfig,
        catalogue: Catalogue,
        partitions: Partitions,
        checkpoints: OffsetCheckpoints,
        removals: Removals,
        clock: Callable[[], int],
    ) -> None:
        self._files = files
        self._config = config
        self._catalogue = catalogue
        self._partitions = partitions
        self._checkpoints = checkpoints
        self._removals = removals
        self._clock = clock
        self._tasks: list[asyncio.Task[None]] = []
        self._is_open = self._is_clean = False
        self.is_recovering = False

    # --- start and end

    def open(self) -> None:
        """Finds the partitions; after an end that was not clean, recovers them all. The checkpoints have been loaded.

        Raises StorageError, but not for a single partition.
        """
        names = self._files.list("")
        was_clean = CLEAN_SHUTDOWN_FILE in names
        if was_clean:
            self._files.remove(CLEAN_SHUTDOWN_FILE)
            self._files.sync_directory("")
        self._forget_deleted()
        self._removals.now(name for name in names if is_deleted_directory(name))
        found, strange = self._partitions.find(name for name in names if name.rpartition("-")[2].isdecimal() and name != METADATA_DIRECTORY)
        if strange:
            some = ", ".join(strange[:_NAMED_MAX]) + (", ..." if len(strange) > _NAMED_MAX else "")
            log.warning("%d directories belong to no topic and are left alone: %s", len(strange), some)
        if found and not was_clean:
            log.info("the last end was not clean: recovering %d partitions", len(found))
            self.is_recovering = True
            self._partitions.recover(found, threads=self._recovery_threads())
            self.is_recovering = False
        self._is_open = True

    def _forget_deleted(self) -> None:
        topics = self._catalogue.topics
        known = (name for name in self._checkpoints.names() if name.topic not in RESERVED_TOPICS)
        gone = [name for name in known if name.topic not in topics or name.partition >= len(topics[name.topic].leaders)]
        if self._checkpoints.forget(gone):
            # A crash came between the deletion of a topic and this; another one must not make it true for the next topic of that name.
            self._checkpoints.write()

    def close(self) -> None:
        """Closes every log, writes down where all stand, and removes what waits to be removed."""
        for task in self._tasks:
            task.cancel()
        self._tasks.clear()
        self._is_clean = self._partitions.close(threads=self._recovery_threads()) and self._is_open
        self._removals.close()
        if not self._is_open:
            return
        self._is_open = False
        try:
            self._checkpoints.write()
        except StorageError as error:
            log.error("the checkpoints are not written: %s", error)
            self._is_clean = False

    def mark_clean(self) -> None:
        """The very end: says on the disk that all was closed in order, if it was; then the next start recovers nothing.

        Raises StorageError.
        """
        if self._is_clean:
            self._files.replace(CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN.format(self._catalogue.broker_epoch).encode())

    def _recovery_threads(self) -> int:
        return self._catalogue.configs.broker_number("num.recovery.threads.per.data.dir")

    # --- what others ask for

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Removes files and `*-delete` directories after a delay, in a worker thread."""
        self._removals.later(paths, delay_ms)

    async def checkpoint_recovery_points(self) -> None:
        """Makes the recovery points durable now. Raises StorageError."""
        await self.checkpoint((RECOVERY_POINT_FILE,))

    async def checkpoint(self, files: Iterable[str] = EVERY_FILE) -> None:
        """Writes down where the open logs stand, in a worker thread, where that has changed. Raises StorageError."""
        for partition in self._partitions.opened():
            self._checkpoints.note(partition.name, partition.log)
        await asyncio.get_running_loop().run_in_executor(None, self._checkpoints.write, tuple(files))

    async def checkpoint_metadata(self) -> None:
        """Writes down up to where the metadata log is durable, if it grew. Raises StorageError."""
        if self._checkpoints.has_news:
            await asyncio.get_running_loop().run_in_executor(None, self._checkpoints.write, (RECOVERY_POINT_FILE,))

    async def expire_segments(self) -> None:
        """Retention: every partition that has files, in use or not. What goes is renamed, and removed after file.delete.delay.ms."""
        self._files.check_root()
        loop = asyncio.get_running_loop()
        for topic, number in self._partitions.all():
            began_s = loop.time()
            must_wait = await self._expire_segments_of(topic, number)
            await asyncio.sleep(_REST * (loop.time() - began_s))
            if must_wait:
                await self._sync_and_expire(topic, number)

    async def _sync_and_expire(self, topic: Topic, number: int) -> None:
        """A full segment must be durable before old ones may go: waits for that, then asks once more."""
        partition = self._partitions.in_use(TopicPartition(topic.name, number))
        if partition is not None:
            partition.grew()
            if partition.syncing is not None:
                await partition.syncing
            if not partition.deleted:
                await self._expire_segments_of(topic, number)

    async def expire_producers(self) -> None:
        """Forgets idempotent producers that have been silent for producer.id.expiration.ms."""
        for partition in self._partitions.opened():
            await asyncio.sleep(0)
            partition.log.expire_producers(self._clock())

    async def _expire_segments_of(self, topic: Topic, number: int) -> bool:
        """Whether more may go once a full segment is durable."""
        is_complete = False
        while not is_complete:
            if self._catalogue.topics.get(topic.name) is not topic:
                return False
            try:
                expired = await self._partitions.borrow(topic, number, self._expire)
            except StorageError as error:
                log.error("%s-%d: its old segments stay: %s", topic.name, number, error)
                return False
            if expired.paths:
                log.info("%s-%d: old segments are deleted; the log starts at offset %d", topic.name, number, expired.start_offset)
                self._removals.later(expired.paths, self._catalogue.number_in_force(topic, "file.delete.delay.ms"))
            is_complete = expired.is_complete
            await asyncio.sleep(0)
        return expired.must_wait

    def _expire(self, partition_log: PartitionLog) -> _Expired:
        """Takes some of the old segments out of a log; any thread."""
        paths = partition_log.expire_segments(self._clock(), segments_max=_SEGMENTS_AT_ONCE)
        must_wait = partition_log.rolled_segments > 0
        return _Expired(paths, partition_log.log_start_offset, must_wait, is_complete=not paths or must_wait)

    # --- when

    def begin(self) -> None:
        """Begins the periodic work, on the running loop."""
        number = self._config.number
        self._every(_METADATA_INTERVAL_MS, self.checkpoint_metadata, delay_ms=_METADATA_INTERVAL_MS)
        self._every(number("log.retention.check.interval.ms"), self.expire_segments)
        self._every(number("producer.id.expiration.check.interval.ms"), self.expire_producers)
        recovery_points = (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE)
        self._every(number("log.flush.offset.checkpoint.interval.ms"), lambda: self.checkpoint(recovery_points))
        self._every(number("log.flush.start.offset.checkpoint.interval.ms"), lambda: self.checkpoint((LOG_START_FILE,)))

    def _every(self, interval_ms: int, work: Callable[[], Awaitable[None]], *, delay_ms: int | None = None) -> None:
        delay_ms = self._config.number("log.initial.task.delay.ms") if delay_ms is None else delay_ms
        self._tasks.append(asyncio.get_running_loop().create_task(self._repeat(interval_ms, work, delay_ms)))

    async def _repeat(self, interval_ms: int, work: Callable[[], Awaitable[None]], delay_ms: int) -> None:
        await asyncio.sleep(min(delay_ms / 1000, _SLEEP_S_MAX))
        while True:
            try:
                await work()
            except StorageError as error:
                log.error("%s", error)
            except Exception:
                log.exception("work on the logs failed; it is tried again")
            await asyncio.sleep(min(max(interval_ms, 1) / 1000, _SLEEP_S_MAX))
