"""The settings of one partition's log, by Kafka's names (underscores for dots) and with Kafka's defaults.

Nothing is read or checked here; the broker fills it from the topic's configuration.
"""

from dataclasses import dataclass
from typing import Final

_INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Bytes and milliseconds as the names say.

    segment_bytes, segment_ms, segment_index_bytes: when a new segment begins (size, age by the batches' timestamps, index size);
    segment_jitter_ms: up to so much is taken off the age, so that logs that began together do not roll together.
    index_interval_bytes: one index entry after so many bytes of log, always at a batch's start.
    max_message_bytes: the largest batch that a client may append, as it lies in the log.
    message_timestamp_type: `CreateTime` or `LogAppendTime`.
    message_timestamp_before_max_ms, message_timestamp_after_max_ms: how far a client's timestamp may lie from the broker's clock.
    compression_type: the codec that everything is stored in; `producer` keeps what came. The levels are those of its codec.
    cleanup_policy: `delete`, `compact` or both with a comma; compacted topics take no record without a key.
    retention_ms, retention_bytes: how long, and how much of it, a log keeps that is not only compacted; -1: no limit.
    file_delete_delay_ms: how long a deleted file is kept under another name.
    flush_messages, flush_ms: sync to the disk whenever so many records wait for it, or one has waited so long.
    min_cleanable_dirty_ratio, min_compaction_lag_ms, max_compaction_lag_ms, delete_retention_ms: when a log is cleaned, and how long what
    the cleaner keeps a tombstone.
    producer_id_expiration_ms: an idempotent producer is forgotten so long after its last append (a broker's setting).
    """

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_jitter_ms: int = 0
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4_096
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    compression_type: str = "producer"
    compression_gzip_level: int = -1
    compression_lz4_level: int = 9
    compression_zstd_level: int = 3
    cleanup_policy: str = "delete"
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    flush_messages: int = _INT64_MAX
    flush_ms: int = _INT64_MAX
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = _INT64_MAX
    delete_retention_ms: int = 86_400_000
    producer_id_expiration_ms: int = 86_400_000

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_deleted_from(self) -> bool:
        """Whether old segments go by age and size."""
        return "delete" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
