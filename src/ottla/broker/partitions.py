"""The partitions of the brokers here: each topic-partition's log, opened at first use; after a crash all of them, before anybody asks.

A partition whose log cannot be opened is offline: asking for it raises StorageError, and it is tried again now and then, off the loop.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any, NamedTuple
from uuid import UUID, uuid4

from ottla.broker.offset_checkpoints import OffsetCheckpoints
from ottla.broker.partition import Partition
from ottla.broker.removals import DELETED_DIRECTORY_SUFFIX, Removals
from ottla.core.catalogue.catalogue import Catalogue, Topic
from ottla.core.errors import StorageError
from ottla.core.model import TopicPartition
from ottla.storage.checkpoints import METADATA_FILE, decode_partition_metadata, encode_partition_metadata
from ottla.storage.damage import Loss
from ottla.storage.files import Files
from ottla.storage.partition_log import LogSettings, Opened, PartitionLog

__all__ = ["Partition", "Partitions", "log_settings"]

log = logging.getLogger("ottla.broker.partitions")

STRAY_DIRECTORY_SUFFIX = "-stray"
RETRY_MS = 5_000
"""A partition that could not be opened is tried again so much later."""
PROGRESS_S = 5
"""Opening or closing everything says how far it is, so often."""
_NAME_BYTES_MAX = 255
_NAMED_MAX = 10
_SYNC_THREADS = 8
_CLOSE_THREADS_MIN = 8
"""Closing waits for the disk, not for the processor: more threads than cores make it shorter."""


class _Offline(NamedTuple):
    """Why a partition could not be opened, and when to try again."""

    reason: str
    retry_at_ms: int


def log_settings(catalogue: Catalogue, topic: Topic) -> LogSettings:
    """The settings of a topic's logs, from the topic, the broker or Kafka's defaults."""

    def number(name: str) -> int:
        return catalogue.number_in_force(topic, name)

    def text(name: str) -> str:
        return str(catalogue.parsed_value(topic, name))

    policy, dirty_ratio = catalogue.parsed_value(topic, "cleanup.policy"), catalogue.parsed_value(topic, "min.cleanable.dirty.ratio")
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
        producer_id_expiration_ms=catalogue.configs.broker_number("producer.id.expiration.ms"),
    )


class Partitions:
    """Every partition that has been used since the start, by name.

    After a clean end one is opened when it is first used. The cleaner uses all of compacted topics at its first look and they stay open;
    retention borrows the others for a moment.
    """

    def __init__(
        self, files: Files, catalogue: Catalogue, clock: Callable[[], int], checkpoints: OffsetCheckpoints, removals: Removals
    ) -> None:
        self._files = files
        self._catalogue = catalogue
        self._clock = clock
        self._checkpoints = checkpoints
        self._removals = removals
        self._open: dict[TopicPartition, Partition] = {}
        self._offline: dict[TopicPartition, _Offline] = {}
        self._on_disk: set[TopicPartition] = set()
        self._retries: dict[TopicPartition, asyncio.Task[None]] = {}
        self._losses: dict[TopicPartition, tuple[Loss, ...]] = {}
        self._is_closed = False
        # How many partitions were opened, or tried in vain, where somebody asked for them: a request bounds what it costs the loop.
        self.openings = 0
        self._executor = ThreadPoolExecutor(_SYNC_THREADS, thread_name_prefix="ottla-sync")

    # --- one partition

    def get(self, topic: Topic, number: int) -> Partition | None:
        """The partition, opened if need be; None when the topic has no such number. Raises StorageError when it is offline."""
        partition = self._open.get(TopicPartition(topic.name, number))
        if partition is None and 0 <= number < len(topic.leaders):
            partition = self._open_now(topic, number)
        return partition

    def by_name(self, topic: str, number: int) -> Partition | None:
        """As `get`, for a topic by name; None when there is no such topic."""
        partition = self._open.get(TopicPartition(topic, number))
        if partition is None:
            known = self._catalogue.topics.get(topic)
            partition = None if known is None else self.get(known, number)
        return partition

    def _open_now(self, topic: Topic, number: int) -> Partition:
        name = TopicPartition(topic.name, number)
        if self._is_closed:
            raise StorageError(f"{name.topic}-{name.partition} is not opened: the broker has stopped")
        offline = self._offline.get(name)
        if offline is not None:
            self._try_again_later(topic, number, offline)
            raise StorageError(offline.reason)
        self.openings += 1
        try:
            return self._take(name, self._load(topic, number, log_settings(self._catalogue, topic))[0])
        except StorageError as error:
            self._set_offline(name, error)
            raise

    def _load(self, topic: Topic, number: int, settings: LogSettings) -> tuple[PartitionLog, Opened]:
        """A log that nobody uses yet, opened; any thread: the settings are looked up by who asks, on the loop."""
        self._files.check_root()
        directory = f"{topic.name}-{number}"
        name = TopicPartition(topic.name, number)
        topic_id = UUID(bytes=topic.topic_id)
        if self._files.exists(directory):
            self._put_stray_aside(name, directory, topic_id)
        partition_log = PartitionLog(self._files, directory, settings, topic_id=topic_id, leader_epoch=topic.leader_epochs[number])
        opened = partition_log.open(
            self._clock(), log_start_offset=self._checkpoints.log_start(name), recovery_point=self._checkpoints.recovery_point(name)
        )
        self._say_losses(name, opened)
        return partition_log, opened

    def _say_losses(self, name: TopicPartition, opened: Opened) -> None:
        """Once: retention opens what nobody uses again and again."""
        if self._losses.get(name, ()) != opened.losses:
            self._losses[name] = opened.losses
            for loss in opened.losses:
                log.log(logging.ERROR if loss.was_durable else logging.WARNING, "%s-%d: %s", *name, loss.sentence)

    def _put_stray_aside(self, name: TopicPartition, directory: str, topic_id: UUID) -> None:
        """What an earlier topic of the same name left behind (a crash while it was deleted) is kept under another name, as Kafka does."""
        metadata = f"{directory}/{METADATA_FILE}"
        found = decode_partition_metadata(self._files.read_all(metadata)) if self._files.exists(metadata) else None
        if found is None:
            # Torn by a power failure, or never written: what lies here under the topic's name is the topic's.
            self._files.replace(metadata, encode_partition_metadata(topic_id))
        elif found != topic_id:
            stray = _renamed(directory, STRAY_DIRECTORY_SUFFIX)
            self._files.rename_directory(directory, stray)
            self._files.sync_directory("")
            if self._checkpoints.forget((name,)):
                self._checkpoints.write()
            log.warning("%s belongs to an earlier topic of that name: it is kept as %s, and nothing reads it", directory, stray)

    def _take(self, name: TopicPartition, partition_log: PartitionLog) -> Partition:
        self._offline.pop(name, None)
        topic = self._catalogue.topics[name.topic]
        partition = self._open[name] = Partition(name, partition_log, self._executor, leader=topic.leaders[name.partition])
        partition_log.leader_epoch = topic.leader_epochs[name.partition]  # it may have moved while the log was opened
        return partition

    def _set_offline(self, name: TopicPartition, error: StorageError) -> None:
        before = self._offline.get(name)
        self._offline[name] = _Offline(str(error), self._clock() + RETRY_MS)
        if before is None or before.reason != str(error):
            log.error("%s-%d is offline: %s", *name, error)

    def _try_again_later(self, topic: Topic, number: int, offline: _Offline) -> None:
        """Opens it in a worker thread, when it is time again: that may be long, after a crash."""
        name = TopicPartition(topic.name, number)
        if self._clock() >= offline.retry_at_ms and name not in self._retries:
            self._retries[name] = asyncio.get_running_loop().create_task(self._try_again(topic, number))

    async def _try_again(self, topic: Topic, number: int) -> None:
        name = TopicPartition(topic.name, number)
        settings = log_settings(self._catalogue, topic)
        try:
            loaded = await asyncio.get_running_loop().run_in_executor(self._executor, self._load, topic, number, settings)
        except StorageError as error:
            if self._catalogue.topics.get(topic.name) is topic:
                self._set_offline(name, error)
        else:
            if self._catalogue.topics.get(topic.name) is topic:
                log.warning("%s-%d could be opened and takes records again", *name)
                self._take(name, loaded[0])
        finally:
            del self._retries[name]

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
        """Topic and number of every partition that has files, in use or not; those that come or go meanwhile may be missed."""
        for name in tuple(self._on_disk | self._open.keys()):
            topic = self._catalogue.topics.get(name.topic)
            if topic is not None and name.partition < len(topic.leaders):
                yield topic, name.partition

    @contextmanager
    def borrowed(self, topic: Topic, number: int) -> Iterator[PartitionLog]:
        """The log of a partition for a moment (no `await` inside): one that nobody uses is closed again, unless it was changed.

        Raises StorageError.
        """
        partition = self._open.get(TopicPartition(topic.name, number))
        if partition is not None:
            yield partition.log
            return
        name = TopicPartition(topic.name, number)
        if name in self._offline:
            raise StorageError(self._offline[name].reason)
        partition_log, opened = self._load(topic, number, log_settings(self._catalogue, topic))
        began = partition_log.log_start_offset
        try:
            yield partition_log
        except BaseException:
            # Without a word of being clean: whatever it was, the next who opens it looks at the files.
            partition_log.close(clean=False)
            raise
        if opened.clean and partition_log.log_start_offset == began and not partition_log.rolled_segments:
            partition_log.close()
        else:
            # Closing it would sync, and that is not for the loop.
            self._take(name, partition_log)

    def leader_changed(self, topic: Topic, number: int) -> None:
        """Another broker leads a partition now, by the catalogue."""
        partition = self._open.get(TopicPartition(topic.name, number))
        if partition is not None:
            partition.leader_changed(topic.leaders[number], topic.leader_epochs[number])

    def settings_changed(self, topic: Topic) -> None:
        """Gives the open logs of a topic its present settings."""
        settings = log_settings(self._catalogue, topic)
        for number in range(len(topic.leaders)):
            partition = self._open.get(TopicPartition(topic.name, number))
            if partition is not None:
                partition.log.settings = settings
                partition.settings_changed()

    def check_deletable(self, topic: Topic) -> None:
        """StorageError while a worker thread opens a partition of the topic: it goes by paths, and a next topic's files have the same."""
        if any(TopicPartition(topic.name, number) in self._retries for number in range(len(topic.leaders))):
            raise StorageError(f"a partition of {topic.name} is being opened after an error: delete the topic when that has ended")

    def delete(self, topic: Topic) -> None:
        """Gives the files of a topic that the catalogue has removed other names, to be removed later, and wakes whoever waits for it.

        The checkpoints forget it in memory only: they are to be written before a topic of the same name is made (broker/deletions.py).
        Files that cannot be renamed are named and stay.
        """
        delay_ms = self._catalogue.number_in_force(topic, "file.delete.delay.ms")
        names = [TopicPartition(topic.name, number) for number in range(len(topic.leaders))]
        for name in names:
            directory = f"{name.topic}-{name.partition}"
            partition = self._open.pop(name, None)
            self._offline.pop(name, None)
            self._on_disk.discard(name)
            self._losses.pop(name, None)
            try:
                if partition is not None or self._files.exists(directory):
                    away = _renamed(directory, DELETED_DIRECTORY_SUFFIX)
                    (partition.log if partition else PartitionLog(self._files, directory, LogSettings())).move_away(away)
                    self._removals.later((away,), delay_ms)
            except StorageError as error:
                log.error("%s of the deleted topic stays: %s", directory, error)
            if partition is not None:
                partition.end()
        self._checkpoints.forget(names)

    # --- start and end

    def find(self, directories: Iterable[str]) -> tuple[list[tuple[Topic, int]], list[str]]:
        """Which partitions there are, of the names in the data directory; and the names that belong to no topic."""
        found, strange = [], []
        for directory in directories:
            topic_name, _, number = directory.rpartition("-")
            topic = self._catalogue.topics.get(topic_name)
            if topic is not None and number.isdecimal() and int(number) < len(topic.leaders):
                found.append((topic, int(number)))
            else:
                strange.append(directory)
        self._on_disk.update(TopicPartition(topic.name, number) for topic, number in found)
        self._say_missing()
        return found, strange

    def _say_missing(self) -> None:
        """Partitions that had durable records by the checkpoints and have no directory: most are opened much later, or never."""
        unseen = sorted(self._checkpoints.names() - self._on_disk)
        missing = [name for name in unseen if name.topic in self._catalogue.topics and self._checkpoints.holds_records(name)]
        if missing:
            some = ", ".join(f"{topic}-{number}" for topic, number in missing[:_NAMED_MAX]) + (", ..." if len(missing) > _NAMED_MAX else "")
            log.error("%d partitions had records when they were last synced, and their directories are gone: %s", len(missing), some)

    def recover(self, found: Iterable[tuple[Topic, int]], *, threads: int) -> None:
        """Opens partitions in worker threads, and returns when all are open or offline."""
        settings: dict[str, LogSettings] = {}
        with ThreadPoolExecutor(threads, thread_name_prefix="ottla-recovery") as pool:
            jobs = {}
            for topic, number in found:
                if topic.name not in settings:
                    settings[topic.name] = log_settings(self._catalogue, topic)
                jobs[pool.submit(self._load, topic, number, settings[topic.name])] = TopicPartition(topic.name, number)
            try:
                _wait_and_tell(jobs, "recovering after a crash: %d of %d partitions are open")
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
        for job, name in jobs.items():
            try:
                self._take(name, job.result()[0])
            except StorageError as error:
                self._set_offline(name, error)

    async def settle(self) -> None:
        """Waits for what is being made durable, or opened, off the loop, and for what that brings; what fails there is said."""
        while tasks := self._under_way():
            for outcome in await asyncio.gather(*tasks, return_exceptions=True):
                if isinstance(outcome, BaseException):
                    log.error("work on a partition failed", exc_info=outcome)

    def _under_way(self) -> list[asyncio.Future[None]]:
        syncs = [task for partition in self._open.values() for task in (partition.flushing, partition.syncing) if task is not None]
        return [task for task in (*syncs, *self._retries.values()) if not task.done()]

    def close(self, *, threads: int = _CLOSE_THREADS_MIN) -> bool:
        """Closes every log cleanly, several at a time; whether all were. One that cannot be is named and does not keep others from it."""
        self._is_closed = True
        is_clean = not self._offline
        with ThreadPoolExecutor(max(threads, _CLOSE_THREADS_MIN), thread_name_prefix="ottla-closing") as pool:
            jobs = {pool.submit(partition.log.close, clean=True): partition for partition in self._open.values()}
            _wait_and_tell(jobs, "stopping: %d of %d partitions are closed")
        for job, partition in jobs.items():
            partition.stop()
            try:
                job.result()
            except StorageError as error:
                is_clean = False
                log.error("%s-%d is not closed cleanly and will be recovered: %s", *partition.name, error)
            self._checkpoints.note(partition.name, partition.log)
        self._open.clear()
        self._executor.shutdown(wait=True)
        return is_clean


def _renamed(directory: str, suffix: str) -> str:
    """Kafka's name for a directory that is put aside. A long topic name is cut so that it stays a file name; the partition number is kept,
    because Apache Kafka does not start on a directory whose name has none."""
    topic, _, number = directory.rpartition("-")
    ending = f"-{number}.{uuid4().hex}{suffix}"
    return topic[: _NAME_BYTES_MAX - len(ending)] + ending


def _wait_and_tell(jobs: Iterable[Future[Any]], sentence: str) -> None:
    """Waits for worker threads, and says how far they are when it takes long."""
    left = set(jobs)
    count, waited_s = len(left), 0
    while left := wait(left, PROGRESS_S).not_done:
        waited_s += PROGRESS_S
        log.warning("%s, after %d s", sentence % (count - len(left), count), waited_s)
