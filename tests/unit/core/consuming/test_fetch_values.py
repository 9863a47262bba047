"""What goes in and out of the fetch machine."""

from ottla.core.consuming.fetch_values import NO_MOVE, FetchPolicy, PartitionAnswer
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition


def test_an_error_needs_nothing_but_its_code() -> None:
    answer = PartitionAnswer(TopicPartition("t", 0), ErrorCode.UNKNOWN_TOPIC_ID)
    assert (len(answer.records), answer.aborted, answer.high_watermark, answer.moved_to) == (0, (), -1, NO_MOVE)


def test_kafka_s_defaults_but_for_larger_parts() -> None:
    policy = FetchPolicy()
    assert (policy.max_wait_ms, policy.min_bytes, policy.max_bytes, policy.api_timeout_ms) == (500, 1, 52_428_800, 60_000)
    assert policy.partition_max_bytes == 4 * 1024 * 1024
