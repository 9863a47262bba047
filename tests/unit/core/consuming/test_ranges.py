"""Ranges and what they are answered with."""

import pickle

from ottla.core.consuming.ranges import FetchedRecords, FetchRange
from ottla.core.model import TopicPartition

ZERO = TopicPartition("t", 0)


def test_a_range_travels_to_tasks_and_knows_no_topic_id_unless_told() -> None:
    assert pickle.loads(pickle.dumps(FetchRange(ZERO, 1, 2))) == (ZERO, 1, 2, "")


def test_records_without_transactions_name_none_that_was_aborted() -> None:
    assert FetchedRecords(ZERO, 1, 2, memoryview(b"")).aborted == ()
