"""`poll_arrow`: which records become one batch, and what is raised instead."""

from types import SimpleNamespace
from typing import Any

import pytest

from ottla.client.consumer.arrow.columns import decode_arrow
from ottla.client.consumer.arrow_polling import ENOUGH_ROWS, TakenRecords
from ottla.client.consumer.kafka_errors import KafkaError, KafkaException
from ottla.client.consumer.plain_columns import decode_plain
from ottla.client.engine.record_buffer import Slice
from ottla.client.engine.values import PartitionEnd, PartitionFailure
from ottla.client.fetch.fetch_values import FetchedRecords
from ottla.protocol.errors import ErrorCode
from ottla.protocol.model import Record, TopicPartition
from ottla.protocol.records.batch import encode_batch


def slice_of(decode: Any, partition: int, first: int, end: int) -> Slice:
    data = bytes(encode_batch([Record(at, 0, None, b"%d" % at, ()) for at in range(9)]))
    (columns,) = decode(FetchedRecords(TopicPartition("t", partition), 0, 9, memoryview(data)))
    return Slice(TopicPartition("t", partition), columns, first, end, end, 0)


def engine(*slices: Slice, events: tuple[Any, ...] = ()) -> Any:
    asked: list[Any] = []
    left = list(events)

    def take(count: int, *, enough: int | None) -> list[Slice]:
        asked.append((count, enough))
        return list(slices)

    return SimpleNamespace(take=take, asked=asked, take_events=lambda count: [left.pop(0) for _ in left[:count]])


def test_slices_become_one_batch() -> None:
    made = TakenRecords(100, include_headers=False)
    found = engine(slice_of(decode_arrow, 0, 2, 4), slice_of(decode_plain, 1, 0, 0), slice_of(decode_plain, 1, 7, 9))
    made.take(found)
    assert (made.is_complete, made.has_records, found.asked) == (True, True, [(100, ENOUGH_ROWS)])
    batch = made.batch()
    assert [batch.column(name).to_pylist() for name in ("partition", "offset", "value")] == [
        [0, 0, 1, 1],
        [2, 3, 7, 8],
        [b"2", b"3", b"7", b"8"],
    ]


def test_without_records_there_is_no_batch() -> None:
    made = TakenRecords(100, include_headers=True)
    made.take(engine(slice_of(decode_plain, 0, 0, 0), events=(PartitionEnd(TopicPartition("t", 0), 9),)))
    assert (made.is_complete, made.batch()) == (False, None)


def test_errors_are_raised_and_ends_of_partitions_are_not() -> None:
    refused = PartitionFailure(TopicPartition("t", 1), ErrorCode.TOPIC_AUTHORIZATION_FAILED, "the broker refuses to read it")
    found = engine(slice_of(decode_plain, 0, 0, 1), events=(PartitionEnd(TopicPartition("t", 0), 9), refused))
    made = TakenRecords(100, include_headers=False)
    with pytest.raises(KafkaException) as raised:
        made.take(found)
    assert raised.value.args[0].code() == KafkaError.TOPIC_AUTHORIZATION_FAILED
    assert found.asked == [], "records stay where they are"
    made.take(found)
    assert made.has_records
