"""What goes in and out of the fetch machine."""

from ottla.core.consuming.fetch_values import BULK_BYTES, BULK_WAIT_MS, NO_MOVE, FetchPolicy, PartitionAnswer
from ottla.core.errors import ErrorCode
from ottla.core.model import TopicPartition


def test_an_error_needs_nothing_but_its_code() -> None:
    answer = PartitionAnswer(TopicPartition("t", 0), ErrorCode.UNKNOWN_TOPIC_ID)
    assert (len(answer.records), answer.aborted, answer.high_watermark, answer.moved_to) == (0, (), -1, NO_MOVE)


def test_kafka_s_defaults_but_for_larger_parts() -> None:
    policy = FetchPolicy()
    assert (policy.max_wait_ms, policy.min_bytes, policy.max_bytes, policy.api_timeout_ms) == (500, 1, 52_428_800, 60_000)
    assert policy.partition_max_bytes == 4 * 1024 * 1024


def test_large_answers_never_ask_for_less_or_wait_longer() -> None:
    bulk = FetchPolicy().bulk()
    assert (bulk.min_bytes, bulk.max_wait_ms, bulk.max_bytes) == (BULK_BYTES, BULK_WAIT_MS, FetchPolicy().max_bytes)
    assert FetchPolicy(min_bytes=2 * BULK_BYTES, max_wait_ms=3).bulk() == FetchPolicy(min_bytes=2 * BULK_BYTES, max_wait_ms=3)
