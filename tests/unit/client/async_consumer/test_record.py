"""Records as aiokafka has them, on columns."""

import dataclasses
from types import SimpleNamespace
from typing import Any

import aiokafka
import aiokafka.structs
import pytest

from ottla.client.async_consumer.record import ConsumerRecord, OffsetAndMetadata, OffsetAndTimestamp, Records, record_maker
from ottla.client.consumer.message import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE
from ottla.protocol.model import TopicPartition


class Columns:
    topic, partition = "t", 3
    keys = [b"k", None, b"k", b"k"]
    values = [b"value", None, b"value", b"3"]
    offsets = [7, 8, 7, 9]

    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None:
        return [("h", b"1")] if row != 1 else None

    def timestamp(self, row: int) -> tuple[int, int]:
        return [(TIMESTAMP_CREATE_TIME, 5), (TIMESTAMP_NOT_AVAILABLE, 0), (TIMESTAMP_CREATE_TIME, 5), (TIMESTAMP_LOG_APPEND_TIME, 6)][row]


COLUMNS: Any = Columns()


def test_the_attributes_are_aiokafkas() -> None:
    names = [each.name for each in dataclasses.fields(aiokafka.ConsumerRecord)]
    record, null = ConsumerRecord(COLUMNS, 0), ConsumerRecord(COLUMNS, 1)
    assert [getattr(record, name) for name in names] == ["t", 3, 7, 5, 0, b"k", b"value", None, 1, 5, (("h", b"1"),)]
    assert [getattr(null, name) for name in names] == ["t", 3, 8, -1, 0, None, None, None, -1, -1, ()]
    assert ConsumerRecord(COLUMNS, 3).timestamp_type == 1
    theirs = aiokafka.ConsumerRecord(**{name: getattr(record, name) for name in names})
    assert repr(record) == repr(theirs)


def test_records_are_equal_by_their_attributes() -> None:
    assert ConsumerRecord(COLUMNS, 0) == ConsumerRecord(COLUMNS, 2)
    assert ConsumerRecord(COLUMNS, 0) != ConsumerRecord(COLUMNS, 1)
    assert ConsumerRecord(COLUMNS, 0) != 7
    with pytest.raises(TypeError):
        hash(ConsumerRecord(COLUMNS, 0))


def test_many_records() -> None:
    records = Records()
    records.add(COLUMNS, 0, 2)
    records.add(COLUMNS, 3, 4)
    made = [ConsumerRecord(COLUMNS, row) for row in (0, 1, 3)]
    assert (len(records), list(records), records, list(reversed(records))) == (3, made, made, made[::-1])
    assert [records[index] for index in (0, 2, -1, -3)] == [made[index] for index in (0, 2, -1, -3)]
    assert (records[1:], records[::-2], records + made, made + records) == (made[1:], made[::-2], made + made, made + made)
    assert made[1] in records
    assert repr(records) == repr(made)
    assert records != 7
    for index in (3, -4):
        with pytest.raises(IndexError):
            records[index]
    assert not Records()


def test_more_records_than_are_made_at_once() -> None:
    columns: Any = SimpleNamespace(offsets=list(range(700)), values=[b"%d" % number for number in range(700)])
    records = Records()
    records.add(columns, 5, 300)
    records.add(columns, 300, 700)
    assert [(record.offset, record.value) for record in records] == [(number, b"%d" % number) for number in range(5, 700)]


def test_deserializers() -> None:
    assert record_maker(None, None) is ConsumerRecord
    record = record_maker(None, lambda value: value.upper())(COLUMNS, 0)
    assert (record.key, record.value, record.serialized_value_size) == (b"k", b"VALUE", 5)
    record = record_maker(lambda key: {"key": key}, None)(COLUMNS, 0)
    assert record.key is record.key
    assert (record.key, record.value) == ({"key": b"k"}, b"value")
    assert record_maker(str, None)(COLUMNS, 1).key == "None", "null is deserialized, too"
    with pytest.raises(ValueError, match="invalid literal"):
        record_maker(None, int)(COLUMNS, 0)


def test_they_equal_aiokafkas() -> None:
    assert OffsetAndMetadata(3) == aiokafka.structs.OffsetAndMetadata(3, "")
    assert OffsetAndTimestamp(3, 7) == aiokafka.structs.OffsetAndTimestamp(3, 7)
    theirs = aiokafka.structs.TopicPartition("t", 1)
    assert {TopicPartition("t", 1): 5}[theirs] == 5
    assert repr(TopicPartition("t", 1)) == repr(theirs)
