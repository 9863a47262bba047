"""The partitions this broker leads: each topic-partition's log, opened at first use, and the fetches that wait at its end."""

import asyncio
import logging
from collections.abc import Callable
from uuid import UUID

from ottla.core.catalogue.catalogue import BROKER_RESOURCE, TOPIC_RESOURCE, Catalogue, Topic
from ottla.core.errors import StorageError
from ottla.core.model import TopicPartition
from ottla.storage.files import Files
from ottla.storage.partition_log import LogSettings, PartitionLog

log = logging.getLogger("ottla.broker.partitions")


class Partition:
    """One partition: its log, and who is to be woken when it grows."""

    __slots__ = ("deleted", "log", "name", "syncing", "waiters")

    def __init__(self, name: TopicPartition, log: PartitionLog) -> None:
        self.name = name
        self.log = log
        self.deleted = False
        self.waiters: set[Callable[[], None]] = set()
        self.syncing: asyncio.Future[None] | None = None

    def grew(self) -> None:
        """Records were appended: wakes the waiting fetches, and has a segment that is full made durable, off the loop."""
        if self.waiters:
            for wake in tuple(self.waiters):
                wake()
        if self.log.rolled_segments and self.syncing is None:
            self.syncing = asyncio.ensure_future(self._sync_rolled())

    async def _sync_rolled(self) -> None:
        try:
            await asyncio.get_running_loop().run_in_executor(None, self.log.sync_rolled)
        except StorageError as error:
            log.error("%s-%d: a full segment could not be made durable: %s", *self.name, error)
        self.syncing = None


def log_settings(catalogue: Catalogue, topic: Topic) -> LogSettings:
    """The settings of a topic's logs, from the topic, the broker or Kafka's defaults."""

    def number(name: str) -> int:
        return int(catalogue.config_value(TOPIC_RESOURCE, topic.name, name)[0])

    def text(name: str) -> str:
        return catalogue.config_value(TOPIC_RESOURCE, topic.name, name)[0]

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
        cleanup_policy=text("cleanup.policy"),
        retention_ms=number("retention.ms"),
        retention_bytes=number("retention.bytes"),
        file_delete_delay_ms=number("file.delete.delay.ms"),
        flush_messages=number("flush.messages"),
        flush_ms=number("flush.ms"),
        min_cleanable_dirty_ratio=float(text("min.cleanable.dirty.ratio")),
        min_compaction_lag_ms=number("min.compaction.lag.ms"),
        max_compaction_lag_ms=number("max.compaction.lag.ms"),
        delete_retention_ms=number("delete.retention.ms"),
        producer_id_expiration_ms=int(catalogue.config_value(BROKER_RESOURCE, "", "producer.id.expiration.ms")[0]),
    )


class Partitions:
    """Every partition that has been used since the start, by name. A partition that was never used costs nothing."""

    def __init__(self, files: Files, catalogue: Catalogue, clock: Callable[[], int]) -> None:
        self._files = files
        self._catalogue = catalogue
        self._clock = clock
        self._open: dict[TopicPartition, Partition] = {}

    def get(self, topic: Topic, number: int) -> Partition | None:
        """The partition, opened (and recovered, after a crash) if need be; None when the topic has no such number."""
        name = TopicPartition(topic.name, number)
        partition = self._open.get(name)
        if partition is None and 0 <= number < len(topic.leaders):
            settings = log_settings(self._catalogue, topic)
            partition_log = PartitionLog(self._files, f"{topic.name}-{number}", settings, topic_id=UUID(bytes=topic.topic_id))
            opened = partition_log.open(self._clock())
            if opened.bytes_cut:
                log.warning(
                    "%s-%d: %d bytes of a torn tail were cut; the log ends at offset %d", *name, opened.bytes_cut, opened.end_offset
                )
            partition = self._open[name] = Partition(name, partition_log)
        return partition

    def by_name(self, topic: str, number: int) -> Partition | None:
        """As `get`, for a topic by name; None when there is no such topic."""
        partition = self._open.get(TopicPartition(topic, number))
        if partition is None:
            known = self._catalogue.topics.get(topic)
            partition = None if known is None else self.get(known, number)
        return partition

    def settings_changed(self, topic: Topic) -> None:
        """Gives the open logs of a topic its present settings."""
        settings = log_settings(self._catalogue, topic)
        for number in range(len(topic.leaders)):
            partition = self._open.get(TopicPartition(topic.name, number))
            if partition is not None:
                partition.log.settings = settings

    def delete(self, topic: Topic) -> None:
        """Deletes the files of a topic that the catalogue has removed, and wakes whoever waits for it."""
        for number in range(len(topic.leaders)):
            name = TopicPartition(topic.name, number)
            partition = self._open.pop(name, None)
            if partition is None:
                partition = Partition(name, PartitionLog(self._files, f"{topic.name}-{number}", LogSettings()))
            partition.log.delete()
            partition.deleted = True
            partition.grew()

    async def settle(self) -> None:
        """Waits for what is being made durable off the loop."""
        await asyncio.gather(*(partition.syncing for partition in self._open.values() if partition.syncing is not None))

    def close(self) -> None:
        """Closes every log cleanly; one that cannot be closed is named and does not keep the others from it."""
        for partition in self._open.values():
            try:
                partition.log.close(clean=True)
            except StorageError as error:
                log.error("%s-%d is not closed cleanly and will be recovered: %s", *partition.name, error)
        self._open.clear()
