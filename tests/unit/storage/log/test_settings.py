"""The defaults are Kafka's."""

from ottla.storage.log.settings import LogSettings


def test_defaults() -> None:
    settings = LogSettings()
    assert (settings.segment_bytes, settings.segment_ms, settings.segment_index_bytes) == (1 << 30, 7 * 86_400_000, 10 << 20)
    assert (settings.index_interval_bytes, settings.max_message_bytes) == (4096, 1_048_588)
    assert (settings.is_compacted, settings.is_log_append_time) == (False, False)


def test_policies_and_timestamp_types() -> None:
    assert LogSettings(cleanup_policy="compact,delete").is_compacted
    assert LogSettings(message_timestamp_type="LogAppendTime").is_log_append_time
