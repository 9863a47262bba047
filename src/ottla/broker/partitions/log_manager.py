"""Work on logs that no request asks for: retention, expiry of producers, checkpoints, recovery after a crash, the clean-shutdown marker.

As Kafka's LogManager, and by its settings. The log decides which segments expire; this module decides when to check, and
in which thread the disk is used. Between two partitions the event loop serves other work.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import partial
from typing import Final, NamedTuple

from ottla.broker.clock import PeriodicTask
from ottla.broker.partitions.offset_checkpoints import EVERY_FILE, OffsetCheckpoints
from ottla.broker.partitions.partitions import Partitions
from ottla.broker.partitions.removals import Removals, is_deleted_directory
from ottla.config import BrokerConfig
from ottla.log.checkpoints import CLEAN_SHUTDOWN_FILE, HIGH_WATERMARK_FILE, LOG_START_FILE, RECOVERY_POINT_FILE
from ottla.log.file_system import Files
from ottla.log.partition_log import PartitionLog
from ottla.metadata.cluster_metadata import ClusterMetadata
from ottla.metadata.topics import METADATA_DIRECTORY, RESERVED_TOPICS, Topic
from ottla.protocol.errors import StorageError
from ottla.protocol.model import TopicPartition

log = logging.getLogger(__name__)

# As Kafka writes it: the epoch of the broker's last registration, by which its controller knows a clean end (KIP-966); -1 without one.
CLEAN_SHUTDOWN: Final = '{{"version":0,"brokerEpoch":{}}}'
_NAMED_MAX: Final = 10
_METADATA_INTERVAL_MS: Final = 1000
"""How long after a change of topics or settings the checkpoint may not say that it is durable: damage then looks like a torn write."""
_SEGMENTS_AT_ONCE: Final = 64
"""Segments of one log that retention renames before the event loop continues with other work."""
_REST: Final = 4
"""Retention takes a fifth of the event loop's time at most: after each partition it pauses so many times as long as it took."""


class _Expired(NamedTuple):
    """What retention took from a log. `must_wait`: a full segment must be synced before more may expire."""

    paths: tuple[str, ...]
    start_offset: int
    must_wait: bool
    is_complete: bool


class LogManager:
    """The periodic work on the logs. `open` it before anything is served, then `start`; `close` it when nothing is served any more."""

    def __init__(
        self,
        files: Files,
        config: BrokerConfig,
        cluster_metadata: ClusterMetadata,
        partitions: Partitions,
        checkpoints: OffsetCheckpoints,
        removals: Removals,
        clock: Callable[[], int],
    ) -> None:
        self._files = files
        self._config = config
        self._cluster_metadata = cluster_metadata
        self._partitions = partitions
        self._checkpoints = checkpoints
        self._removals = removals
        self._clock = clock
        self._tasks: list[PeriodicTask] = []
        self._is_open = self._is_clean = False
        self.is_recovering = False

    # --- start and end

    def open(self) -> None:
        """Find the partitions; after an unclean shutdown, recover them all. The checkpoints have been loaded.

        Raises StorageError, but not for a single partition.
        """
        names = self._files.list("")
        was_clean = CLEAN_SHUTDOWN_FILE in names
        if was_clean:
            self._files.remove(CLEAN_SHUTDOWN_FILE)
            self._files.sync_directory("")
        self._forget_deleted()
        self._removals.remove_now(name for name in names if is_deleted_directory(name))
        found, unknown = self._partitions.find(name for name in names if name.rpartition("-")[2].isdecimal() and name != METADATA_DIRECTORY)
        if unknown:
            some = ", ".join(unknown[:_NAMED_MAX]) + (", ..." if len(unknown) > _NAMED_MAX else "")
            log.warning("%d directories belong to no topic and are left alone: %s", len(unknown), some)
        if found and not was_clean:
            log.info("the last end was not clean: recovering %d partitions", len(found))
            self.is_recovering = True
            self._partitions.recover(found, threads=self._recovery_threads())
            self.is_recovering = False
        self._is_open = True

    def _forget_deleted(self) -> None:
        topics = self._cluster_metadata.topics
        known = (name for name in self._checkpoints.names() if name.topic not in RESERVED_TOPICS)
        gone = [name for name in known if name.topic not in topics or name.partition >= len(topics[name.topic].leaders)]
        if self._checkpoints.forget(gone):
            # A crash came between the deletion of a topic and this; another one must not make it true for the next topic of that name.
            self._checkpoints.write()

    def close(self) -> None:
        """Close every log, write the checkpoints, and remove the files that are waiting to be removed."""
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
            self._files.replace(CLEAN_SHUTDOWN_FILE, CLEAN_SHUTDOWN.format(self._cluster_metadata.broker_epoch).encode())

    def _recovery_threads(self) -> int:
        return self._cluster_metadata.configs.broker_number("num.recovery.threads.per.data.dir")

    # --- what others ask for

    def remove_later(self, paths: Iterable[str], delay_ms: int) -> None:
        """Remove files and `*-delete` directories after a delay, in a worker thread."""
        self._removals.remove_later(paths, delay_ms)

    async def checkpoint_recovery_points(self) -> None:
        """Make the recovery points durable now. Raises StorageError."""
        await self.checkpoint((RECOVERY_POINT_FILE,))

    async def checkpoint(self, files: Iterable[str] = EVERY_FILE) -> None:
        """Write the checkpoints of the open logs, in a worker thread, if they have changed. Raises StorageError."""
        for partition in self._partitions.opened():
            self._checkpoints.note(partition.name, partition.log)
        await asyncio.get_running_loop().run_in_executor(None, self._checkpoints.write, tuple(files))

    async def checkpoint_metadata(self) -> None:
        """Write the recovery point of the metadata log, if it has changed. Raises StorageError."""
        if self._checkpoints.has_changed:
            await asyncio.get_running_loop().run_in_executor(None, self._checkpoints.write, (RECOVERY_POINT_FILE,))

    async def expire_segments(self) -> None:
        """Retention: every partition that has files, in use or not. Expired segments are renamed, and removed after a delay."""
        self._files.check_root()
        loop = asyncio.get_running_loop()
        for topic, number in self._partitions.all():
            began_s = loop.time()
            must_wait = await self._expire_segments_of(topic, number)
            await asyncio.sleep(_REST * (loop.time() - began_s))
            if must_wait:
                await self._sync_and_expire(topic, number)

    async def _sync_and_expire(self, topic: Topic, number: int) -> None:
        """A full segment must be durable before old ones may be deleted: wait for that, then check once more."""
        partition = self._partitions.in_use(TopicPartition(topic.name, number))
        if partition is not None:
            await partition.sync_rolled()
            if not partition.deleted:
                await self._expire_segments_of(topic, number)

    async def expire_producers(self) -> None:
        """Forget idempotent producers that have appended nothing for producer.id.expiration.ms."""
        for partition in self._partitions.opened():
            await asyncio.sleep(0)
            partition.log.expire_producers(self._clock())

    async def _expire_segments_of(self, topic: Topic, number: int) -> bool:
        """Whether more segments may expire once a full one is durable."""
        is_complete = False
        while not is_complete:
            if self._cluster_metadata.topics.get(topic.name) is not topic:
                return False
            try:
                expired = await self._partitions.borrow(topic, number, self._expire)
            except StorageError as error:
                log.error("%s-%d: its old segments are not deleted: %s", topic.name, number, error)
                return False
            if expired.paths:
                log.info("%s-%d: old segments are deleted; the log starts at offset %d", topic.name, number, expired.start_offset)
                self._removals.remove_later(expired.paths, self._cluster_metadata.number_in_force(topic, "file.delete.delay.ms"))
            is_complete = expired.is_complete
            await asyncio.sleep(0)
        return expired.must_wait

    def _expire(self, partition_log: PartitionLog) -> _Expired:
        """Take some of the expired segments out of a log; any thread."""
        paths = partition_log.expire_segments(self._clock(), segments_max=_SEGMENTS_AT_ONCE)
        must_wait = partition_log.rolled_segments > 0
        return _Expired(paths, partition_log.log_start_offset, must_wait, is_complete=not paths or must_wait)

    # --- when

    def start(self) -> None:
        """Start the periodic work, on the running loop."""
        number = self._config.number
        delay_ms = number("log.initial.task.delay.ms")
        recovery_points = (RECOVERY_POINT_FILE, HIGH_WATERMARK_FILE)
        self._repeat(self.checkpoint_metadata, _METADATA_INTERVAL_MS, _METADATA_INTERVAL_MS)
        self._repeat(self.expire_segments, number("log.retention.check.interval.ms"), delay_ms)
        self._repeat(self.expire_producers, number("producer.id.expiration.check.interval.ms"), delay_ms)
        self._repeat(partial(self.checkpoint, recovery_points), number("log.flush.offset.checkpoint.interval.ms"), delay_ms)
        self._repeat(partial(self.checkpoint, (LOG_START_FILE,)), number("log.flush.start.offset.checkpoint.interval.ms"), delay_ms)

    def _repeat(self, work: Callable[[], Awaitable[None]], interval_ms: int, delay_ms: int) -> None:
        pause_s = max(interval_ms, 1) / 1000
        task = PeriodicTask(work, pause_s=lambda: pause_s, failed=_log_failure, delay_s=delay_ms / 1000)
        task.start()
        self._tasks.append(task)


def _log_failure(error: Exception) -> None:
    if isinstance(error, StorageError):
        log.error("%s", error)
    else:
        log.error("work on the logs failed; it is tried again", exc_info=error)
