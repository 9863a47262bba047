"""Values of the fetch machine."""

import pickle

from ottla.client.fetch.fetch_values import (
    BULK_BYTES,
    BULK_WAIT_MS,
    NO_CURRENT_LEADER,
    FetchedRecords,
    FetchPolicy,
    FetchRange,
    PartitionResponse,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import TopicPartition

ZERO = TopicPartition("t", 0)


def test_a_range_is_picklable_and_has_no_topic_id_by_default() -> None:
    assert pickle.loads(pickle.dumps(FetchRange(ZERO, 1, 2))) == (ZERO, 1, 2, "")


def test_records_without_transactions_name_none_that_was_aborted() -> None:
    assert FetchedRecords(ZERO, 1, 2, memoryview(b"")).aborted == ()


def test_an_error_needs_nothing_but_its_code() -> None:
    answer = PartitionResponse(TopicPartition("t", 0), ErrorCode.UNKNOWN_TOPIC_ID)
    assert (len(answer.records), answer.aborted, answer.high_watermark, answer.current_leader) == (0, (), -1, NO_CURRENT_LEADER)


def test_kafka_s_defaults_but_for_larger_parts() -> None:
    policy = FetchPolicy()
    assert (policy.max_wait_ms, policy.min_bytes, policy.max_bytes, policy.api_timeout_ms) == (500, 1, 52_428_800, 60_000)
    assert policy.partition_max_bytes == 4 * 1024 * 1024


def test_bulk_requests_never_ask_for_less_or_wait_longer() -> None:
    bulk = FetchPolicy().bulk()
    assert (bulk.min_bytes, bulk.max_wait_ms, bulk.max_bytes) == (BULK_BYTES, BULK_WAIT_MS, FetchPolicy().max_bytes)
    assert FetchPolicy(min_bytes=2 * BULK_BYTES, max_wait_ms=3).bulk() == FetchPolicy(min_bytes=2 * BULK_BYTES, max_wait_ms=3)
