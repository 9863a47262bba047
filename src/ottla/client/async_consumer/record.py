"""Records and other values in aiokafka's interface.

Values of aiokafka's interface. Partitions are `ottla.protocol.model.TopicPartition`, a named tuple equal to aiokafka's.

`ConsumerRecord` of aiokafka's interface: a light view on decoded columns, whose attributes are read when they are asked for.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, overload

from ottla.client.consumer.message import TIMESTAMP_LOG_APPEND_TIME, TIMESTAMP_NOT_AVAILABLE, MessageColumns


class OffsetAndMetadata(NamedTuple):
    """An offset to commit: where reading continues."""

    offset: int
    metadata: str = ""


class OffsetAndTimestamp(NamedTuple):
    """The first record at or after a time: its offset, and its own time in milliseconds since 1970."""

    offset: int
    timestamp: int


Deserializer = Callable[[Any], Any]
MakeRecord = Callable[[Any, int], "ConsumerRecord"]
"""A record of some columns' row."""
_NEW: Final[Callable[[type], Any]] = object.__new__
_NO_TIMESTAMP: Final = -1
PIECE_ROWS: Final = 256
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
    """One record. Two are equal when all attributes are.

    `offset`: the record's offset. `value`: None for null; what `value_deserializer` gave, where there is one.
    """

    __slots__ = ("_columns", "_row", "offset", "value")

    def __init__(self, columns: MessageColumns, row: int) -> None:
        self._columns = columns
        self._row = row
        self.offset = columns.offsets[row]
        self.value: Any = columns.values[row]

    @property
    def topic(self) -> str:
        """The topic's name."""
        return self._columns.topic

    @property
    def partition(self) -> int:
        """The partition's number."""
        return self._columns.partition

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

    __slots__ = ("_key",)

    def __init__(self, columns: MessageColumns, row: int, key: Any, value: Any) -> None:
        self._columns = columns
        self._row = row
        self.offset = columns.offsets[row]
        self._key = key
        self.value = value

    @property
    def key(self) -> Any:
        return self._key


class Records(Sequence[ConsumerRecord]):
    """Records of one partition, in their order: what a list of them does that is not changed. Each is made when it is read.

    A list of objects that live as long as it does would cost more than all else, in garbage collections.
    """

    __slots__ = ("_count", "_parts")

    def __init__(self) -> None:
        self._parts: list[tuple[MessageColumns, int, int]] = []
        self._count = 0

    def add(self, columns: MessageColumns, first: int, end: int) -> None:
        """Append rows `first` to `end` (exclusive) of some columns."""
        self._parts.append((columns, first, end))
        self._count += end - first

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[ConsumerRecord]:
        for columns, row, end in self._pieces():
            for offset, value in zip(columns.offsets[row:end], columns.values[row:end]):
                record: ConsumerRecord = _NEW(ConsumerRecord)  # calling the class would cost twice as much
                record._columns = columns
                record._row = row
                record.offset = offset
                record.value = value
                row += 1
                yield record

    def _pieces(self) -> Iterator[tuple[MessageColumns, int, int]]:
        """So few rows at a time that their values stay in the cache."""
        for columns, first, end in self._parts:
            for begin in range(first, end, PIECE_ROWS):
                yield columns, begin, min(begin + PIECE_ROWS, end)

    @overload
    def __getitem__(self, index: int) -> ConsumerRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[ConsumerRecord]: ...
    def __getitem__(self, index: int | slice) -> ConsumerRecord | list[ConsumerRecord]:
        if isinstance(index, slice):
            return [self[each] for each in range(*index.indices(self._count))]
        left = index + self._count if index < 0 else index
        if 0 <= left < self._count:
            for columns, first, end in self._parts:
                if left < end - first:
                    return ConsumerRecord(columns, first + left)
                left -= end - first
        raise IndexError(f"there are {self._count} records, and none at {index}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and list(self) == list(other)

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
        return [*self, *other]

    def __radd__(self, other: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
        return [*other, *self]

    def __repr__(self) -> str:
        return repr(list(self))


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
