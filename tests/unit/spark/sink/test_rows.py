"""Rows as arguments of a producer; invalid rows and columns, with the messages of Spark's own Kafka sink."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql.types import ArrayType, BinaryType, DataType, IntegerType, LongType, StringType, StructField, StructType

from ottla.spark.options.values import OptionError
from ottla.spark.sink.rows import RowError, check_columns, produce_arguments, shown, topics_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def rows(batch: pa.RecordBatch, topic: str | None = "t") -> list[tuple[Any, ...]]:
    return list(produce_arguments(batch, topic))


def test_all_columns_in_any_order():
    columns = {
        "partition": pa.array([1, None], pa.int32()),
        "other": pa.array([1, 2]),
        "headers": pa.array([[{"key": "a", "value": b"1"}, {"key": "a", "value": None}], None], HEADERS),
        "topic": pa.array(["x", "y"]),
        "value": pa.array([b"v", None], pa.binary()),
        "key": pa.array(["ké", None], pa.string()),
    }
    batch = pa.record_batch(columns)
    assert rows(batch, None) == [
        ("x", b"v", "ké".encode(), 1, None, None, 0, [("a", b"1"), ("a", None)]),
        ("y", None, None, -1, None, None, 0, None),
    ]
    assert topics_of(batch, None) == {"x", "y"}
    assert [row[0] for row in rows(batch, "z")] == ["z", "z"]
    assert topics_of(batch, "z") == {"z"}


def test_a_value_alone_is_enough_and_empty_is_not_null():
    batch = pa.record_batch({"value": pa.array(["", "b"], pa.large_string())})
    assert rows(batch) == [("t", b"", None, -1, None, None, 0, None), ("t", b"b", None, -1, None, None, 0, None)]
    assert rows(batch.slice(0, 0)) == []
    assert topics_of(batch.slice(0, 0), "t") == set()


def test_of_two_columns_with_a_name_the_first_counts():
    batch = pa.RecordBatch.from_arrays([pa.array([b"1"]), pa.array([b"2"])], ["value", "value"])
    assert rows(batch)[0][1] == b"1"


@pytest.mark.parametrize(
    ("columns", "said"),
    [
        ({"topic": pa.array(["t", None], pa.string())}, "contains a null topic. Use the `topic` option .*It is the record with key b'k2'"),
        (
            {"topic": ["t", "u"], "partition": pa.array([0, -1], pa.int32())},
            "Invalid partition: -1. .* the record with key b'k2' for topic u",
        ),
        (
            {"topic": ["t", "u"], "headers": pa.array([None, [None]], HEADERS)},
            "A header has no key, in the record with key b'k2' for topic u",
        ),
        ({"topic": ["t", "u"], "headers": pa.array([None, [{"key": None, "value": b""}]], HEADERS)}, "A header has no key"),
    ],
)
def test_a_row_that_cannot_be_written_is_named(columns: dict[str, Any], said: str):
    batch = pa.record_batch({"key": pa.array(["k1", "k2"]), "value": pa.array(["a", "b"]), **columns})
    with pytest.raises(RowError, match=said):
        rows(batch, None)


def test_records_as_errors_name_them():
    assert shown("t", -1, None) == "a record without a key for topic t"
    assert shown("t", 3, b"k") == "the record with key b'k' for partition 3 of topic t"
    assert shown("t", None, b"x" * 100) == f"the record with key {b'x' * 32!r}... for topic t"
    assert shown(None, None, None) == "a record without a key"


TEXT, BYTES, INT, LONG = StringType(), BinaryType(), IntegerType(), LongType()
NO_TOPIC = "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."


def headers_of(key: str, value: str) -> ArrayType:
    return ArrayType(StructType([StructField(key, TEXT), StructField(value, BYTES)]))


def schema_of(**types: DataType) -> StructType:
    return StructType([StructField(name, kind) for name, kind in types.items()])


@pytest.mark.parametrize(
    ("schema", "topic", "said"),
    [
        (schema_of(value=TEXT), None, NO_TOPIC),
        (schema_of(key=TEXT), "t", "Required attribute 'value' not found"),
        (schema_of(VALUE=TEXT), "t", "Required attribute 'value' not found"),
        (schema_of(value=LONG), "t", "value attribute unsupported type bigint. value must be a(n) string or binary"),
        (schema_of(value=TEXT, key=INT), "t", "key attribute unsupported type int. key must be a(n) string or binary"),
        (schema_of(value=TEXT, topic=INT), None, "topic attribute unsupported type int. topic must be a(n) string"),
        (schema_of(value=TEXT, partition=LONG), "t", "partition attribute unsupported type bigint. partition must be a(n) int"),
        (
            schema_of(value=TEXT, headers=headers_of("k", "v")),
            "t",
            "headers attribute unsupported type array<struct<k:string,v:binary>>. "
            "headers must be a(n) array<struct<key:string,value:binary>>",
        ),
    ],
)
def test_columns_that_cannot_be_written(schema: StructType, topic: str | None, said: str):
    with pytest.raises(OptionError) as error:
        check_columns(schema, topic)
    assert str(error.value) == said


def test_columns_that_can():
    everything = schema_of(value=BYTES, key=TEXT, topic=TEXT, partition=INT, headers=headers_of("Key", "Value"), offset=LONG)
    check_columns(everything, None)
    check_columns(schema_of(value=TEXT, topic=INT), "t")
