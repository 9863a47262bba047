"""The settings of one partition's log, by Kafka's names (underscores for dots) and with Kafka's defaults.

Nothing is read or checked here; the broker fills it from the topic's configuration.
"""

from dataclasses import dataclass
from typing import Final

_INT64_MAX: Final = (1 << 63) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class LogSettings:
    """Bytes and milliseconds as the names say.

    segment_bytes, segment_ms, segment_index_bytes: when a new segment begins (size, age by the batches' timestamps, index size).
    index_interval_bytes: one index entry after so many bytes of log, always at a batch's start.
    max_message_bytes: the largest batch that a client may append, as it lies in the log.
    message_timestamp_type: `CreateTime` or `LogAppendTime`.
    message_timestamp_before_max_ms, message_timestamp_after_max_ms: how far a client's timestamp may lie from the broker's clock.
    cleanup_policy: `delete`, `compact` or both with a comma; compacted topics take no record without a key.
    flush_messages: sync to the disk whenever so many records wait for it.
    producer_id_expiration_ms: an idempotent producer is forgotten so long after its last append (a broker's setting).
    """

    segment_bytes: int = 1_073_741_824
    segment_ms: int = 604_800_000
    segment_index_bytes: int = 10_485_760
    index_interval_bytes: int = 4_096
    max_message_bytes: int = 1_048_588
    message_timestamp_type: str = "CreateTime"
    message_timestamp_before_max_ms: int = _INT64_MAX
    message_timestamp_after_max_ms: int = 3_600_000
    cleanup_policy: str = "delete"
    flush_messages: int = _INT64_MAX
    producer_id_expiration_ms: int = 86_400_000

    @property
    def is_compacted(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def is_log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"
