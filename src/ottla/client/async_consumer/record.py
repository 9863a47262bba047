"""`ConsumerRecord` of aiokafka's interface: a light view on decoded columns, whose attributes are read when they are asked for."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ottla.client.consumer.message import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, MessageColumns

Deserializer = Callable[[Any], Any]
MakeRecord = Callable[[Any, int], "ConsumerRecord"]
"""A record of some columns' row."""
_NO_TIMESTAMP: Final = -1
_FIELDS: Final = (
    "topic",
    "partition",
    "offset",
    "timestamp",
    "timestamp_type",
    "key",
    "value",
    "checksum",
    "serialized_key_size",
    "serialized_value_size",
    "headers",
)


class ConsumerRecord:
    """One record. Two are equal when all attributes are."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: MessageColumns, row: int) -> None:
        self._columns = columns
        self._row = row

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._columns.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._columns.partition

    @property
    def offset(self) -> int:
        """The record's offset."""
        return self._columns.offsets[self._row]

    @property
    def timestamp(self) -> int:
        """Milliseconds since 1970, -1 if the record has no time."""
        kind, time_ms = self._columns.timestamp(self._row)
        return _NO_TIMESTAMP if kind == TIMESTAMP_NOT_AVAILABLE else time_ms

    @property
    def timestamp_type(self) -> int:
        """0: set by the producer; 1: set by the broker (LogAppendTime)."""
        return int(self._columns.timestamp(self._row)[0] == TIMESTAMP_LOG_APPEND_TIME)

    @property
    def key(self) -> Any:
        """The key, None for null; as `key_deserializer` gave it, where there is one."""
        return self._columns.keys[self._row]

    @property
    def value(self) -> Any:
        """The value, None for null; as `value_deserializer` gave it, where there is one."""
        return self._columns.values[self._row]

    @property
    def checksum(self) -> None:
        """Records have no checksums of their own since Kafka 0.11: None."""
        return

    @property
    def serialized_key_size(self) -> int:
        """The bytes of the key, -1 for null."""
        return _size(self._columns.keys[self._row])

    @property
    def serialized_value_size(self) -> int:
        """The bytes of the value, -1 for null."""
        return _size(self._columns.values[self._row])

    @property
    def headers(self) -> tuple[tuple[str, bytes | None], ...]:
        """Names and values of the headers."""
        return tuple(self._columns.headers(self._row) or ())

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ConsumerRecord) and _fields(self) == _fields(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ConsumerRecord({', '.join(f'{name}={value!r}' for name, value in _fields(self).items())})"


class DeserializedRecord(ConsumerRecord):
    """A record whose key and value were deserialized."""

    __slots__ = ("_key", "_value")

    def __init__(self, columns: MessageColumns, row: int, key: Any, value: Any) -> None:
        super().__init__(columns, row)
        self._key = key
        self._value = value

    @property
    def key(self) -> Any:
        return self._key

    @property
    def value(self) -> Any:
        return self._value


def record_maker(key_deserializer: Deserializer | None, value_deserializer: Deserializer | None) -> MakeRecord:
    """What makes records. It raises what a deserializer raises, which gets None for null, as in aiokafka."""
    if key_deserializer is None and value_deserializer is None:
        return ConsumerRecord

    def make(columns: MessageColumns, row: int) -> ConsumerRecord:
        key, value = columns.keys[row], columns.values[row]
        return DeserializedRecord(
            columns,
            row,
            key if key_deserializer is None else key_deserializer(key),
            value if value_deserializer is None else value_deserializer(value),
        )

    return make


def _size(data: Any) -> int:
    return -1 if data is None else len(data)


def _fields(record: ConsumerRecord) -> Mapping[str, Any]:
    return {name: getattr(record, name) for name in _FIELDS}
