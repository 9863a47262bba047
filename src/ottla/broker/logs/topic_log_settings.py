"""The settings of topics' logs, from the topic, the broker or Kafka's defaults; and their change in logs that are open."""

import asyncio
from collections import deque
from collections.abc import Iterable
from typing import Final

from ottla.broker.logs.partition import Partition
from ottla.core.metadata.cluster_metadata import ClusterMetadata
from ottla.core.metadata.topics import Topic
from ottla.storage.log.settings import LogSettings

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
