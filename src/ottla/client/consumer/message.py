"""A record and a partition in confluent-kafka's interface.

`TopicPartition` of confluent-kafka's interface: a partition with an offset, and with the result of the call that it was in.

A member as bytes that confluent-kafka's transactional producer reads (librdkafka: `rd_kafka_consumer_group_metadata_write`).

Messages: light views on decoded columns, with confluent-kafka's methods.
"""

import struct
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any, Final, Protocol

from ottla.client.consumer.kafka_errors import KafkaError
from ottla.protocol import model

OFFSET_BEGINNING: Final = -2
OFFSET_END: Final = -1
OFFSET_STORED: Final = -1000
OFFSET_INVALID: Final = -1001


class TopicPartition:
    """A partition; `offset` may be one of the OFFSET_ constants, `leader_epoch` is None where it is not known.

    Two are equal when topic and partition are.
    """

    __slots__ = ("error", "leader_epoch", "metadata", "offset", "partition", "topic")

    def __init__(
        self,
        topic: str,
        partition: int = -1,
        offset: int = OFFSET_INVALID,
        metadata: str | None = None,
        leader_epoch: int | None = None,
    ) -> None:
        if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int):
            raise TypeError(f"topic must be a text, partition and offset must be numbers, not {topic!r}, {partition!r} and {offset!r}")
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.metadata = metadata
        self.leader_epoch = leader_epoch
        self.error: Any = None

    def __eq__(self, other: object) -> bool:
        return bool(_key(self) == _key(other))

    def __lt__(self, other: Any) -> bool:
        return bool(_key(self) < _key(other))

    def __hash__(self) -> int:
        return hash((self.topic, self.partition))

    def __repr__(self) -> str:
        return (
            f"TopicPartition{{topic={self.topic},partition={self.partition},offset={self.offset},"
            f"leader_epoch={self.leader_epoch},error={self.error}}}"
        )


def _key(each: Any) -> Any:
    return getattr(each, "topic", None), getattr(each, "partition", None)


def keys(partitions: Iterable[Any]) -> list[model.TopicPartition]:
    """Partitions of this client or of confluent-kafka, without offsets. Raises TypeError for something else."""
    return [key(each) for each in partitions]


def key(each: Any) -> model.TopicPartition:
    """A partition of this client or of confluent-kafka, without its offset."""
    topic, partition = getattr(each, "topic", None), getattr(each, "partition", None)
    if not isinstance(topic, str) or not isinstance(partition, int):
        raise TypeError(f"expected a TopicPartition, not {each!r}")
    return model.TopicPartition(topic, partition)


_MAGIC: Final = b"CGMDv2:"


def encode_group_metadata(group_id: str, generation: int, member_id: str, instance_id: str | None) -> bytes:
    """Group, generation and member. The number is in the machine's own byte order, as librdkafka writes it."""
    texts = group_id.encode() + b"\0" + member_id.encode() + b"\0"
    instance = b"\1" if instance_id is None else b"\0" + instance_id.encode() + b"\0"
    return _MAGIC + struct.pack("=i", generation) + texts + instance


TIMESTAMP_NOT_AVAILABLE: Final = 0
TIMESTAMP_CREATE_TIME: Final = 1
TIMESTAMP_LOG_APPEND_TIME: Final = 2
NEW_MESSAGE: Final = object.__new__


class Rows(Protocol):
    """A column: mostly a list, which costs less than a method."""

    def __getitem__(self, row: Any, /) -> Any: ...


class MessageColumns(Protocol):
    """Decoded records of one partition."""

    topic: str
    partition: int

    @property
    def keys(self) -> Rows: ...
    @property
    def values(self) -> Rows: ...
    @property
    def offsets(self) -> Sequence[int]: ...
    def leader_epoch(self, row: int) -> int: ...
    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None: ...
    def timestamp(self, row: int) -> tuple[int, int]: ...


class Message:
    """One record. Its length is that of its value."""

    __slots__ = ("_columns", "_row")

    def __init__(self, columns: MessageColumns, row: int) -> None:
        self._columns = columns
        self._row = row

    def topic(self) -> str | None:
        """The topic's name."""
        return self._columns.topic

    def partition(self) -> int | None:
        """The partition's number."""
        return self._columns.partition

    def offset(self) -> int | None:
        """The record's offset."""
        return self._columns.offsets[self._row]

    def key(self) -> Any:
        """The key, None for null; bytes, or what the deserialiser made of them."""
        return self._columns.keys[self._row]

    def value(self) -> Any:
        """The value, None for null; bytes, or what the deserialiser made of them."""
        return self._columns.values[self._row]

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Names and values of the headers, None without any."""
        return self._columns.headers(self._row)

    def timestamp(self) -> tuple[int, int]:
        """The type (TIMESTAMP_CREATE_TIME or TIMESTAMP_LOG_APPEND_TIME) and the time in milliseconds since 1970."""
        return self._columns.timestamp(self._row)

    def leader_epoch(self) -> int | None:
        """The epoch of the leader that appended the record, None if it is not known."""
        epoch = self._columns.leader_epoch(self._row)
        return None if epoch < 0 else epoch

    def error(self) -> KafkaError | None:
        """None for a record; for an event or an error its KafkaError, and `value` is its text."""
        return None

    def latency(self) -> float | None:
        """The time of producing the message, which a consumer does not know: None."""
        return None

    def set_key(self, key: Any) -> None:
        """Replace the key."""
        self._changed().keys = [key]

    def set_value(self, value: Any) -> None:
        """Replace the value."""
        self._changed().values = [value]

    def set_headers(self, headers: list[tuple[str, bytes | None]] | None) -> None:
        """Replace the headers."""
        self._changed().new_headers = [headers]

    def _changed(self) -> "ChangedRecord":
        if not isinstance(self._columns, ChangedRecord):
            self._columns, self._row = ChangedRecord(self._columns, self._row), 0
        return self._columns

    def __len__(self) -> int:
        return len(self.value() or b"")


def messages_of(columns: MessageColumns, first: int, end: int) -> list[Message]:
    """Messages of rows `first` to `end` (exclusive). Calling the class for each one would cost a quarter more."""
    messages = list(map(NEW_MESSAGE, repeat(Message, end - first)))
    row = first
    for message in messages:
        message._columns = columns
        message._row = row
        row += 1
    return messages


class ChangedRecord:
    """The columns of one record that the application, or what it has configured, has changed. `new_headers` is empty while they are not."""

    def __init__(self, columns: MessageColumns, row: int) -> None:
        self._columns = columns
        self._row = row
        self.topic, self.partition = columns.topic, columns.partition
        self.keys: list[Any] = [columns.keys[row]]
        self.values: list[Any] = [columns.values[row]]
        self.offsets = [columns.offsets[row]]
        self.new_headers: list[list[tuple[str, bytes | None]] | None] = []

    def leader_epoch(self, row: int) -> int:
        """The leader epoch of the record's batch."""
        return self._columns.leader_epoch(self._row)

    def headers(self, row: int) -> list[tuple[str, bytes | None]] | None:
        """The headers, None without any."""
        return self.new_headers[0] if self.new_headers else self._columns.headers(self._row)

    def timestamp(self, row: int) -> tuple[int, int]:
        """The type of the record's time, and the time."""
        return self._columns.timestamp(self._row)


class ErrorMessage(Message):
    """An event or an error in the place of a record."""

    __slots__ = ("_error", "_offset", "_partition", "_topic")

    def __init__(self, error: KafkaError, topic: str | None = None, partition: int | None = None, offset: int | None = None) -> None:
        self._error = error
        self._topic = topic
        self._partition = partition
        self._offset = offset

    def topic(self) -> str | None:
        return self._topic

    def partition(self) -> int | None:
        return self._partition

    def offset(self) -> int | None:
        return self._offset

    def key(self) -> bytes | None:
        return None

    def value(self) -> bytes | None:
        return self._error.str().encode()

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        return None

    def timestamp(self) -> tuple[int, int]:
        return TIMESTAMP_NOT_AVAILABLE, 0

    def leader_epoch(self) -> int | None:
        return None

    def error(self) -> Any:
        return self._error
