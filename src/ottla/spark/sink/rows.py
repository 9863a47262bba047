"""Rows as arguments of a producer, a whole Arrow batch at a time, and the check of their columns.

Columns, types and error messages are those of Spark's own Kafka sink (KafkaWriter). It knows no producer.
"""

from collections.abc import Iterable, Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from ottla.spark.options.values import OptionError

if TYPE_CHECKING:
    import pyarrow as pa

ANYWHERE: Final = -1
"""The partition number with which the partitioner chooses."""

_NOW: Final = 0
_KEY_SHOWN_MAX: Final = 32
_BYTES: Final = ("string", "binary")
_HEADERS: Final = "array<struct<key:string,value:binary>>"

ProduceArguments = tuple[str, bytes | None, bytes | None, int, None, None, int, list[tuple[str, bytes | None]] | None]
"""Topic, value, key, partition, None, None, time in ms since 1970 (0: now), headers: `Producer.produce`, in its order."""


class RowError(Exception):
    """A row that cannot be written: the message names it, and says what to do."""


def check_columns(schema: StructType, topic: str | None) -> None:
    """Raises OptionError when rows of `schema` cannot be written; `topic` is the option of that name. Other columns are ignored."""
    types = {field.name: field.dataType.simpleString() for field in reversed(schema.fields)}
    if topic is None:
        if "topic" not in types:
            raise OptionError("topic option required when no 'topic' attribute is present. Use the topic option for setting a topic.")
        _check_type(types, "topic", ("string",))
    _check_type(types, "key", _BYTES)
    if "value" not in types:
        raise OptionError("Required attribute 'value' not found")
    _check_type(types, "value", _BYTES)
    _check_type(types, "headers", (_HEADERS,))
    _check_type(types, "partition", ("int",))


def _check_type(types: dict[str, str], name: str, allowed: tuple[str, ...]) -> None:
    found = types.get(name, allowed[0])
    if found.lower() not in allowed:
        raise OptionError(f"{name} attribute unsupported type {found}. {name} must be a(n) {' or '.join(allowed)}")


def produce_arguments(batch: "pa.RecordBatch", topic: str | None) -> Iterator[ProduceArguments]:
    """The rows in their order; all are checked first. Raises RowError."""
    keys, values = _bytes(batch, "key"), _bytes(batch, "value")
    topics = _topics(batch, topic, keys)
    partitions = _partitions(batch, topics, keys)
    headers = _headers(batch, topics, keys)
    callbacks = repeat(None, batch.num_rows)
    return zip(topics, values, keys, partitions, callbacks, repeat(None), repeat(_NOW), headers)


def topics_of(batch: "pa.RecordBatch", topic: str | None) -> set[str]:
    """The topics that a batch writes to."""
    if topic is not None:
        return {topic} if batch.num_rows else set()
    return {name for name in batch.column(_index(batch, "topic")).unique().to_pylist() if name is not None}


def shown(topic: object, partition: object, key: object) -> str:
    """A record in error messages: its topic and partition, and the beginning of its key."""
    where = "" if topic is None else f" for topic {topic}"
    if topic is not None and isinstance(partition, int) and partition != ANYWHERE:
        where = f" for partition {partition} of topic {topic}"
    if not isinstance(key, bytes):
        return f"a record without a key{where}"
    return f"the record with key {key[:_KEY_SHOWN_MAX]!r}{'...' if len(key) > _KEY_SHOWN_MAX else ''}{where}"


def _index(batch: "pa.RecordBatch", name: str) -> int:
    """The first column of that name: Spark's rows may have several."""
    return int(batch.schema.get_all_field_indices(name)[0])


def _column(batch: "pa.RecordBatch", name: str) -> "pa.Array | None":
    return batch.column(_index(batch, name)) if name in batch.schema.names else None


def _bytes(batch: "pa.RecordBatch", name: str) -> "list[bytes | None] | repeat[None]":
    import pyarrow as pa

    column = _column(batch, name)
    if column is None:
        return repeat(None)
    if pa.types.is_string(column.type):
        column = column.cast(pa.binary())  # the same memory: a string is its UTF-8
    elif pa.types.is_large_string(column.type):
        column = column.cast(pa.large_binary())
    found: list[bytes | None] = column.to_pylist()
    return found


def _topics(batch: "pa.RecordBatch", topic: str | None, keys: Iterable[bytes | None]) -> "list[str] | repeat[str]":
    if topic is not None:
        return repeat(topic)
    column = batch.column(_index(batch, "topic"))
    found: list[str] = column.to_pylist()
    if column.null_count:
        key = _at(keys, found.index(None))  # type: ignore[arg-type]
        raise RowError(
            "The Kafka message data sent to the producer contains a null topic. Use the `topic` option for setting a default topic. "
            f"It is {shown(None, None, key)}."
        )
    return found


def _partitions(batch: "pa.RecordBatch", topics: Iterable[str], keys: Iterable[bytes | None]) -> "list[int] | repeat[int]":
    column = _column(batch, "partition")
    if column is None:
        return repeat(ANYWHERE)
    found: list[int | None] = column.to_pylist()
    for row, partition in enumerate(found):
        if partition is not None and partition < 0:
            raise RowError(
                f"Invalid partition: {partition}. Partition number should always be non-negative or null. "
                f"It is that of {shown(_at(topics, row), None, _at(keys, row))}."
            )
    return [ANYWHERE if partition is None else partition for partition in found]


def _headers(
    batch: "pa.RecordBatch", topics: Iterable[str], keys: Iterable[bytes | None]
) -> "list[list[tuple[str, bytes | None]] | None] | repeat[None]":
    column = _column(batch, "headers")
    if column is None:
        return repeat(None)
    found: list[list[tuple[str, bytes | None]] | None] = []
    for row, headers in enumerate(column.to_pylist()):
        if headers is None:
            found.append(None)
            continue
        # By position, not by name: the names may be in capitals.
        pairs = [(None, None) if header is None else tuple(header.values()) for header in headers]
        if any(name is None for name, _ in pairs):
            raise RowError(f"A header has no key, in {shown(_at(topics, row), None, _at(keys, row))}: drop it, or give it one.")
        found.append(pairs)
    return found


def _at(column: Iterable[Any], row: int) -> Any:
    return column[row] if isinstance(column, list) else next(iter(column))
